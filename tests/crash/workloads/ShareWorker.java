import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * A share consumer that works until its input ends. Arguments: bootstrap, topic, group. It prints, with times in ns:
 *
 * got PARTITION OFFSET COUNT SINCE KIND VALUE   a record, and the acknowledgement that follows
 * confirmed PARTITION TIME                      the last acknowledgements of the partition were answered without error
 * refused PARTITION ERROR                       they were not
 * idle                                          a poll without records
 */
public final class ShareWorker {
    private static final Random CHANCE = new Random();

    public static void main(String[] args) throws Exception {
        AtomicBoolean isAskedToEnd = new AtomicBoolean();
        Thread reader = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {
                    continue;
                }
            } catch (java.io.IOException error) {
                System.out.println("refused -1 " + error);
            }
            isAskedToEnd.set(true);
        });
        reader.setDaemon(true);
        reader.start();
        var bytes = new ByteArrayDeserializer();
        try (KafkaShareConsumer<byte[], byte[]> consumer = new KafkaShareConsumer<>(settings(args), bytes, bytes)) {
            consumer.subscribe(List.of(args[1]));
            long since = System.nanoTime();
            long polled = since;
            while (!isAskedToEnd.get()) {
                work(consumer, since);
                since = polled;
                polled = System.nanoTime();
            }
        }
        System.out.println("closed");
    }

    private static Properties settings(String[] args) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", args[0]);
        settings.put("group.id", args[2]);
        settings.put("share.acknowledgement.mode", "explicit");
        settings.put("reconnect.backoff.ms", "10");
        settings.put("reconnect.backoff.max.ms", "100");
        settings.put("max.poll.records", "100");
        settings.put("default.api.timeout.ms", "10000");
        return settings;
    }

    private static void work(KafkaShareConsumer<byte[], byte[]> consumer, long since) {
        ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(200));
        if (records.isEmpty()) {
            System.out.println("idle");
            return;
        }
        StringBuilder lines = new StringBuilder();
        for (ConsumerRecord<byte[], byte[]> record : records) {
            AcknowledgeType kind = chosen();
            lines.append("got ").append(record.partition()).append(' ').append(record.offset()).append(' ');
            lines.append(record.deliveryCount().orElse((short) -1)).append(' ').append(since).append(' ');
            lines.append(kind.name()).append(' ').append(new String(record.value(), StandardCharsets.UTF_8)).append('\n');
            consumer.acknowledge(record, kind);
        }
        System.out.print(lines);
        System.out.flush();
        try {
            consumer.commitSync().forEach((partition, error) -> System.out.println(error.isEmpty()
                ? "confirmed " + partition.partition() + " " + System.nanoTime()
                : "refused " + partition.partition() + " " + error.get().getClass().getSimpleName()));
        } catch (KafkaException error) {
            System.out.println("refused -1 " + error);
        }
    }

    private static AcknowledgeType chosen() {
        double value = CHANCE.nextDouble();
        return value < 0.05 ? AcknowledgeType.REJECT : value < 0.2 ? AcknowledgeType.RELEASE : AcknowledgeType.ACCEPT;
    }
}
