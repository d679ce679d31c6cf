import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;

/** Records as rows of six fields between tabs; byte strings in base64, null is "-". See tests/clients/model.py. */
final class Rows {
    private Rows() {}

    static ProducerRecord<byte[], byte[]> toSend(String topic, String row) {
        String[] fields = row.split("\t", -1);
        Long timestamp = fields[2].equals("-") ? null : Long.valueOf(fields[2]);
        List<Header> headers = new ArrayList<>();
        for (String each : fields[5].split(",")) {
            if (!each.isEmpty()) {
                int colon = each.indexOf(':');
                String name = new String(bytes(each.substring(0, colon)), StandardCharsets.UTF_8);
                headers.add(new RecordHeader(name, bytes(each.substring(colon + 1))));
            }
        }
        int partition = Integer.parseInt(fields[0]);
        return new ProducerRecord<>(topic, partition, timestamp, bytes(fields[3]), bytes(fields[4]), headers);
    }

    static String row(ConsumerRecord<byte[], byte[]> record) {
        List<String> headers = new ArrayList<>();
        for (Header header : record.headers()) {
            headers.add(text(header.key().getBytes(StandardCharsets.UTF_8)) + ":" + text(header.value()));
        }
        return String.join("\t", String.valueOf(record.partition()), String.valueOf(record.offset()),
            String.valueOf(record.timestamp()), text(record.key()), text(record.value()), String.join(",", headers));
    }

    private static byte[] bytes(String text) {
        return text.equals("-") ? null : Base64.getDecoder().decode(text);
    }

    private static String text(byte[] bytes) {
        return bytes == null ? "-" : Base64.getEncoder().encodeToString(bytes);
    }
}
