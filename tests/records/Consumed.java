import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.Iterator;
import java.util.zip.CRC32;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.utils.BufferSupplier;

/** Reads lines of a stored batch; prints the number and the CRC of the values that Kafka's consumer gets, or "error". */
public class Consumed {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            ByteBuffer buffer = ByteBuffer.wrap(HexFormat.of().parseHex(line));
            String answer;
            try {
                answer = read(MemoryRecords.readableRecords(buffer));
            } catch (Exception | Error error) {
                answer = "error";
            }
            System.out.println(answer);
        }
    }

    private static String read(MemoryRecords records) throws Exception {
        CRC32 values = new CRC32();
        int count = 0;
        try (BufferSupplier buffers = BufferSupplier.create()) {
            for (RecordBatch batch : records.batches()) {
                batch.ensureValid();
                Iterator<Record> iterator = batch.streamingIterator(buffers);
                while (iterator.hasNext()) {
                    Record record = iterator.next();
                    record.ensureValid();
                    values.update(record.value());
                    count++;
                }
            }
        }
        return count + " " + values.getValue();
    }
}
