import java.io.FileReader;
import java.io.Reader;
import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.TimeWindows;

/**
 * A Kafka Streams application whose topics are of every kind that Streams makes: a repartition topic, of which it
 * deletes records as it goes; a changelog that is compacted; one that is compacted and deleted, of windows; and a table
 * whose deletions are tombstones downstream.
 *
 * <p>Usage: java -cp JARS WordCount.java PROPERTIES
 */
public final class WordCount {
    public static void main(String[] args) throws Exception {
        Properties settings = new Properties();
        try (Reader file = new FileReader(args[0])) {
            settings.load(file);
        }
        var strings = Consumed.with(Serdes.String(), Serdes.String());
        var grouped = Grouped.with(Serdes.String(), Serdes.String());
        var written = Produced.with(Serdes.String(), Serdes.String());
        StreamsBuilder builder = new StreamsBuilder();

        KStream<String, String> words = builder.stream("clients.words", strings).selectKey((key, word) -> word);
        words.groupByKey(grouped.withName("by-word"))
                .count(Materialized.as("counts"))
                .toStream()
                .mapValues(String::valueOf)
                .to("clients.counts", written);
        words.groupByKey(grouped.withName("by-word-and-time"))
                .windowedBy(TimeWindows.ofSizeWithNoGrace(Duration.ofSeconds(10)))
                .count(Materialized.as("windows"))
                .toStream()
                .map((window, count) -> KeyValue.pair(window.key() + "@" + window.window().start(), "" + count))
                .to("clients.windows", written);
        builder.table("clients.table", strings, Materialized.as("table"))
                .mapValues(value -> value.toUpperCase(), Materialized.as("upper"))
                .toStream()
                .to("clients.upper", written);

        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setUncaughtExceptionHandler(error -> StreamThreadExceptionResponse.REPLACE_THREAD);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(20))));
        streams.start();
    }
}
