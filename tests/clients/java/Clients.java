import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.function.BooleanSupplier;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** The producer's and the consumer's commands. */
final class Clients {
    private static final Duration TIMEOUT = Duration.ofSeconds(120);

    private Clients() {}

    static Map<String, Object> settings(String bootstrap) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("request.timeout.ms", 60000);
        settings.put("default.api.timeout.ms", 120000);
        return settings;
    }

    /** bootstrap topic codec acks idempotent file */
    static List<String> write(String[] a) throws Exception {
        Map<String, Object> settings = settings(a[1]);
        settings.put("compression.type", a[3]);
        settings.put("acks", a[4]);
        settings.put("enable.idempotence", a[5]);
        settings.put("max.request.size", 10_000_000);
        settings.put("linger.ms", 20);
        settings.put("delivery.timeout.ms", 120000);
        var bytes = new ByteArraySerializer();
        try (var producer = new KafkaProducer<>(settings, bytes, bytes)) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (String row : Files.readAllLines(Path.of(a[6]), StandardCharsets.UTF_8)) {
                sent.add(producer.send(Rows.toSend(a[2], row)));
            }
            List<String> offsets = new ArrayList<>();
            for (Future<RecordMetadata> each : sent) {
                offsets.add(String.valueOf(each.get().offset()));
            }
            return offsets;
        } catch (ExecutionException error) {
            throw (Exception) error.getCause();
        }
    }

    /** bootstrap topic partition,partition,... */
    static List<String> read(String[] a) {
        try (var consumer = consumer(a[1], Map.of())) {
            List<TopicPartition> partitions = new ArrayList<>();
            for (String each : a[3].split(",")) {
                partitions.add(new TopicPartition(a[2], Integer.parseInt(each)));
            }
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            List<String> rows = new ArrayList<>();
            poll(consumer, rows, () -> partitions.stream().allMatch(p -> consumer.position(p) >= ends.get(p)));
            return rows;
        }
    }

    /** bootstrap topic partition offset count */
    static List<String> readFrom(String[] a) {
        try (var consumer = consumer(a[1], Map.of())) {
            TopicPartition partition = new TopicPartition(a[2], Integer.parseInt(a[3]));
            consumer.assign(List.of(partition));
            consumer.seek(partition, Long.parseLong(a[4]));
            int count = Integer.parseInt(a[5]);
            List<String> rows = new ArrayList<>();
            poll(consumer, rows, () -> rows.size() >= count);
            return rows.subList(0, count);
        }
    }

    /** bootstrap topic partition timestamp */
    static List<String> offsetAt(String[] a) {
        try (var consumer = consumer(a[1], Map.of())) {
            TopicPartition partition = new TopicPartition(a[2], Integer.parseInt(a[3]));
            OffsetAndTimestamp found = consumer.offsetsForTimes(Map.of(partition, Long.valueOf(a[4]))).get(partition);
            return found == null ? List.of() : List.of(found.offset() + "\t" + found.timestamp());
        }
    }

    /** bootstrap topic partition */
    static List<String> bounds(String[] a) {
        try (var consumer = consumer(a[1], Map.of())) {
            TopicPartition partition = new TopicPartition(a[2], Integer.parseInt(a[3]));
            long start = consumer.beginningOffsets(List.of(partition)).get(partition);
            return List.of(start + "\t" + consumer.endOffsets(List.of(partition)).get(partition));
        }
    }

    /** bootstrap group topic partition offset metadata */
    static List<String> commit(String[] a) {
        try (var consumer = consumer(a[1], Map.of("group.id", a[2]))) {
            TopicPartition partition = new TopicPartition(a[3], Integer.parseInt(a[4]));
            consumer.assign(List.of(partition));
            consumer.commitSync(Map.of(partition, new OffsetAndMetadata(Long.parseLong(a[5]), a[6])));
            return List.of();
        }
    }

    /** bootstrap group topic partition */
    static List<String> committed(String[] a) {
        try (var consumer = consumer(a[1], Map.of("group.id", a[2]))) {
            TopicPartition partition = new TopicPartition(a[3], Integer.parseInt(a[4]));
            OffsetAndMetadata found = consumer.committed(java.util.Set.of(partition)).get(partition);
            return found == null ? List.of() : List.of(found.offset() + "\t" + found.metadata());
        }
    }

    static KafkaConsumer<byte[], byte[]> consumer(String bootstrap, Map<String, Object> more) {
        Map<String, Object> settings = settings(bootstrap);
        settings.put("enable.auto.commit", false);
        settings.put("auto.offset.reset", "earliest");
        settings.put("fetch.max.wait.ms", 100);
        settings.putAll(more);
        var bytes = new ByteArrayDeserializer();
        return new KafkaConsumer<>(settings, bytes, bytes);
    }

    private static void poll(KafkaConsumer<byte[], byte[]> consumer, List<String> rows, BooleanSupplier finished) {
        long deadline = System.nanoTime() + TIMEOUT.toNanos();
        while (!finished.getAsBoolean()) {
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException(rows.size() + " records, then nothing");
            }
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                rows.add(Rows.row(record));
            }
        }
    }
}
