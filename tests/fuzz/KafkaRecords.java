import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.HexFormat;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MutableRecordBatch;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.CloseableIterator;

/**
 * What Kafka's own classes make of the records of a Fetch response.
 *
 * <p>Reads requests from standard input, each a letter, a length of four bytes in network order, and as many bytes:
 *
 * <pre>
 * d  decode, batch by batch, with the calls of the consumer (CompletedFetch: ensureValid, streamingIterator). Answers with
 *    a line "batch BASE LAST" for each batch and a line "record OFFSET TIMESTAMP KEY VALUE [NAME VALUE]..." for each record of a data batch: bytes in hexadecimal, "-"
 *    for null, "#LENGTH:SHA-256" where they are many
 * c  clean, with the call of the log cleaner (MemoryRecords.filterTo), keeping every record but the last of each batch.
 *    Answers with a line "log BYTES"
 * </pre>
 *
 * and ends each answer with "ok", or with "error TEXT" after what came before the error. The end of the input ends it.
 */
public final class KafkaRecords {
    private static final int MANY = 4096;

    public static void main(String[] args) throws Exception {
        DataInputStream requests = new DataInputStream(System.in);
        PrintStream answers =
            new PrintStream(new BufferedOutputStream(System.out, 1 << 16), false, StandardCharsets.UTF_8);
        answers.println("ok");
        while (true) {
            answers.flush();
            int request;
            byte[] data;
            try {
                request = requests.readByte();
                data = new byte[requests.readInt()];
                requests.readFully(data);
            } catch (EOFException end) {
                return;
            }
            try {
                if (request == 'd') decode(MemoryRecords.readableRecords(ByteBuffer.wrap(data)), answers);
                else answers.println("log " + HexFormat.of().formatHex(clean(data)));
                answers.println("ok");
            } catch (Exception | Error error) {
                answers.println("error " + String.valueOf(error).replaceAll("\\s+", " "));
            }
        }
    }

    private static void decode(MemoryRecords records, PrintStream answers) throws Exception {
        try (BufferSupplier buffers = BufferSupplier.create()) {
            for (MutableRecordBatch batch : records.batches()) {
                batch.ensureValid();
                answers.println("batch " + batch.baseOffset() + " " + batch.lastOffset());
                try (CloseableIterator<Record> read = batch.streamingIterator(buffers)) {
                    while (read.hasNext()) {
                        Record record = read.next();
                        if (!batch.isControlBatch()) answers.println(line(record));
                    }
                }
            }
        }
    }

    private static String line(Record record) throws Exception {
        StringBuilder line = new StringBuilder("record ").append(record.offset()).append(' ').append(record.timestamp());
        line.append(' ').append(bytes(record.key())).append(' ').append(bytes(record.value()));
        for (Header header : record.headers()) {
            line.append(' ').append(shown(header.key().getBytes(StandardCharsets.UTF_8)));
            line.append(' ').append(shown(header.value()));
        }
        return line.toString();
    }

    private static String bytes(ByteBuffer buffer) throws Exception {
        if (buffer == null) return "-";
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return shown(bytes);
    }

    private static String shown(byte[] bytes) throws Exception {
        if (bytes == null) return "-";
        if (bytes.length <= MANY) return "=" + HexFormat.of().formatHex(bytes);
        return "#" + bytes.length + ":" + HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(bytes));
    }

    private static byte[] clean(byte[] data) {
        MemoryRecords.RecordFilter filter = new MemoryRecords.RecordFilter(0, 0) {
            @Override
            protected BatchRetentionResult checkBatchRetention(RecordBatch batch) {
                return new BatchRetentionResult(BatchRetention.RETAIN_EMPTY, false);
            }

            @Override
            protected boolean shouldRetainRecord(RecordBatch batch, Record record) {
                return record.offset() != batch.lastOffset();
            }
        };
        ByteBuffer target = ByteBuffer.allocate(2 * data.length + 4096);
        MemoryRecords.FilterResult result =
            MemoryRecords.readableRecords(ByteBuffer.wrap(data)).filterTo(filter, target, BufferSupplier.create());
        ByteBuffer output = result.outputBuffer();
        output.flip();
        byte[] cleaned = new byte[output.remaining()];
        output.get(cleaned);
        return cleaned;
    }
}
