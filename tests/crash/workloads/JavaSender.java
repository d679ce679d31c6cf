import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Kafka's producer: sends the records that lines of the standard input name, "number topic partition key value", and
 * prints "acknowledged number offset" or "failed number why" for each. It ends with its input, when all are answered.
 */
public final class JavaSender {
    private static final int NEVER_MS = 600_000;

    private JavaSender() {}

    /** bootstrap, acks, codec, idempotent */
    public static void main(String[] a) throws IOException {
        var bytes = new ByteArraySerializer();
        try (var producer = new KafkaProducer<>(settings(a), bytes, bytes);
                var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            System.out.println("started");
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                send(producer, line.split(" ", 5));
            }
        }
    }

    private static Map<String, Object> settings(String[] a) {
        Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", a[0], "acks", a[1],
            "compression.type", a[2], "enable.idempotence", Boolean.valueOf(a[3]), "linger.ms", 2,
            "batch.size", 12_000, "max.block.ms", NEVER_MS, "delivery.timeout.ms", NEVER_MS));
        settings.putAll(Map.of("reconnect.backoff.ms", 10, "reconnect.backoff.max.ms", 50,
            "retry.backoff.ms", 10, "retry.backoff.max.ms", 50, "request.timeout.ms", 5000));
        return settings;
    }

    private static void send(KafkaProducer<byte[], byte[]> producer, String[] named) {
        byte[] key = named[3].getBytes(StandardCharsets.UTF_8);
        byte[] value = named[4].getBytes(StandardCharsets.UTF_8);
        producer.send(new ProducerRecord<>(named[1], Integer.valueOf(named[2]), key, value), (metadata, error) ->
            System.out.println(error == null ? "acknowledged " + named[0] + " " + metadata.offset()
                : "failed " + named[0] + " " + error.toString().replaceAll("\\s+", " ")));
    }
}
