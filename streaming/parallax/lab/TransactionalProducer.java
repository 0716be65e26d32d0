import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Transactional producers of Kafka's Java client, driven over standard input, one command a line, fields split by tabs:
 *
 * <pre>
 * open    ID  TIMEOUT_MS                a producer with transactional.id ID; answers once initTransactions is done.
 *                                       One that is open under the same ID is fenced by it, as by another process
 * begin   ID
 * send    ID  TOPIC  KEY  VALUE         key and value in Base64, "-" for null; answers with the record's offset
 * flush   ID
 * commit  ID
 * abort   ID
 * close   ID
 * </pre>
 *
 * Each command is answered by one line: "ok", "ok OFFSET", or "error TEXT". The end of the input ends the program.
 * Usage: java -cp JARS TransactionalProducer.java BOOTSTRAP_SERVERS
 */
public final class TransactionalProducer {
    private static final Map<String, KafkaProducer<byte[], byte[]>> PRODUCERS = new HashMap<>();

    public static void main(String[] args) throws Exception {
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        answers.println("ok");
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            try {
                answers.println(("ok " + run(args[0], line.split("\t"))).trim());
            } catch (Exception error) {
                answers.println("error " + String.valueOf(error).replaceAll("\\s+", " "));
            }
        }
        System.exit(0); // at once: open transactions stay open, as those of a producer that vanished
    }

    private static String run(String bootstrapServers, String[] words) throws Exception {
        String id = words[1];
        if (words[0].equals("open")) {
            KafkaProducer<byte[], byte[]> fenced = PRODUCERS.put(id, open(bootstrapServers, id, words[2]));
            if (fenced != null) fenced.close(java.time.Duration.ZERO);
            return "";
        }
        KafkaProducer<byte[], byte[]> producer = PRODUCERS.get(id);
        if (producer == null) throw new IllegalArgumentException("no producer " + id + " is open");
        switch (words[0]) {
            case "begin" -> producer.beginTransaction();
            case "send" -> {
                return Long.toString(send(producer, words[2], bytes(words[3]), bytes(words[4])));
            }
            case "flush" -> producer.flush();
            case "commit" -> producer.commitTransaction();
            case "abort" -> producer.abortTransaction();
            case "close" -> PRODUCERS.remove(id).close(java.time.Duration.ZERO);
            default -> throw new IllegalArgumentException("unknown command " + words[0]);
        }
        return "";
    }

    private static KafkaProducer<byte[], byte[]> open(String bootstrapServers, String id, String timeoutMs) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrapServers);
        settings.put("transactional.id", id);
        settings.put("transaction.timeout.ms", timeoutMs);
        settings.put("max.block.ms", "30000");
        settings.put("request.timeout.ms", "10000");
        settings.put("delivery.timeout.ms", "30000");
        settings.put("linger.ms", "0");
        var producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
        producer.initTransactions();
        return producer;
    }

    private static long send(KafkaProducer<byte[], byte[]> producer, String topic, byte[] key, byte[] value)
            throws Exception {
        var sent = producer.send(new ProducerRecord<>(topic, key, value));
        producer.flush();
        return sent.get().offset();
    }

    private static byte[] bytes(String word) {
        return word.equals("-") ? null : Base64.getDecoder().decode(word);
    }
}
