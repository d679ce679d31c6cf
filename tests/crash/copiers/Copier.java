import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.Collectors;
import java.util.zip.CRC32;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** The copier with Kafka's Java client; see tests/crash/copiers/__init__.py for what it is told and says. */
public final class Copier implements ConsumerRebalanceListener {
    private static final double UNWILLING = 0.05;
    private final String name;
    private final String target;
    private final int partitions;
    private final int pauseMs;
    private final Random chance = new Random();
    private final KafkaProducer<byte[], byte[]> producer;
    private final KafkaConsumer<byte[], byte[]> consumer;

    /** The copier drops what it has done, as one does whose transformation fails. */
    private static final class Unwilling extends KafkaException {
        @Override
        public String toString() {
            return "will";
        }
    }

    private interface Call {
        void run();
    }

    /** bootstrap, name, group, source, target, partitions, most, pause in ms, static, transactions */
    private Copier(String[] a) {
        name = a[1];
        target = a[4];
        partitions = Integer.parseInt(a[5]);
        pauseMs = Integer.parseInt(a[7]);
        var out = new ByteArraySerializer();
        producer = new KafkaProducer<>(producerSettings(a[0]), out, out);
        persistently(producer::initTransactions);
        say("started");
        var in = new ByteArrayDeserializer();
        consumer = new KafkaConsumer<>(consumerSettings(a), in, in);
        consumer.subscribe(List.of(a[3]), this);
    }

    private static Map<String, Object> settings(String bootstrap) {
        return new HashMap<>(Map.of(
            "bootstrap.servers", bootstrap, "reconnect.backoff.ms", 10, "reconnect.backoff.max.ms", 100,
            "retry.backoff.ms", 10, "retry.backoff.max.ms", 100));
    }

    private Map<String, Object> producerSettings(String bootstrap) {
        Map<String, Object> settings = settings(bootstrap);
        settings.putAll(Map.of("transactional.id", name, "transaction.timeout.ms", 8000, "linger.ms", 2,
            "max.block.ms", 5000, "delivery.timeout.ms", 120000));
        return settings;
    }

    private Map<String, Object> consumerSettings(String[] a) {
        Map<String, Object> settings = settings(a[0]);
        settings.putAll(Map.of("group.id", a[2], "isolation.level", "read_committed", "enable.auto.commit", false,
            "auto.offset.reset", "earliest", "session.timeout.ms", 3000, "heartbeat.interval.ms", 300,
            "fetch.max.wait.ms", 50, "max.poll.records", Integer.valueOf(a[6]), "default.api.timeout.ms", 20000));
        settings.put("max.partition.fetch.bytes", 4000);
        if (a[8].equals("1")) {
            settings.put("group.instance.id", name);
        }
        return settings;
    }

    public static void main(String[] a) throws Exception {
        AtomicBoolean askedToEnd = new AtomicBoolean();
        Thread reader = new Thread(() -> {
            try {
                System.in.read();
            } catch (java.io.IOException error) {
                say("fenced " + error);
            }
            askedToEnd.set(true);
        });
        reader.setDaemon(true);
        reader.start();
        try {
            Copier copier = new Copier(a);
            while (!askedToEnd.get()) {
                copier.copySome();
            }
            copier.close();
        } catch (KafkaException error) {
            say("fenced " + flat(error));
            System.exit(3);
        }
    }

    private void copySome() throws InterruptedException {
        ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(100));
        if (records.isEmpty()) {
            return;
        }
        try {
            copy(records);
            say("committed " + records.count());
        } catch (KafkaException error) {
            persistently(producer::abortTransaction);
            say("aborted " + flat(error));
            goBack();
        }
    }

    private void copy(ConsumerRecords<byte[], byte[]> records) throws InterruptedException {
        producer.beginTransaction();
        say("begun");
        pause();
        send(records);
        say("sent");
        pause();
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (ConsumerRecord<byte[], byte[]> each : records) {
            offsets.put(new TopicPartition(each.topic(), each.partition()), new OffsetAndMetadata(each.offset() + 1));
        }
        producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
        say("offsets");
        pause();
        if (chance.nextDouble() < UNWILLING) {
            throw new Unwilling();
        }
        say("committing");
        persistently(producer::commitTransaction);
    }

    private void send(ConsumerRecords<byte[], byte[]> records) throws InterruptedException {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (ConsumerRecord<byte[], byte[]> each : records) {
            sent.add(producer.send(
                new ProducerRecord<>(target, each.partition() % partitions, each.key(), copyOf(each.value()))));
        }
        for (Future<RecordMetadata> each : sent) {
            try {
                each.get();
            } catch (ExecutionException error) {
                throw error.getCause() instanceof KafkaException known ? known : new KafkaException(error.getCause());
            }
        }
    }

    private byte[] copyOf(byte[] value) {
        CRC32 checksum = new CRC32();
        checksum.update(value);
        String text = new String(value, StandardCharsets.UTF_8);
        return String.format("%s %08x %s", name, checksum.getValue(), text).getBytes(StandardCharsets.UTF_8);
    }

    private void goBack() {
        var assigned = consumer.assignment();
        persistently(() -> consumer.committed(assigned).forEach((partition, committed) ->
            consumer.seek(partition, committed == null ? 0 : committed.offset())));
    }

    /** Again, while the error is one that passes. */
    private static void persistently(Call call) {
        while (true) {
            try {
                call.run();
                return;
            } catch (KafkaException error) {
                if (!(error instanceof RetriableException)) {
                    throw error;
                }
            }
        }
    }

    private void pause() throws InterruptedException {
        Thread.sleep(Math.round(-Math.log(1 - chance.nextDouble()) * pauseMs));
    }

    private void close() {
        consumer.close();
        producer.close();
        say("closed");
    }

    private static void say(String line) {
        System.out.println(line);
    }

    private static String flat(Exception error) {
        return error.toString().replaceAll("[\\t\\r\\n]+", " ");
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> found) {
        var indexes = new TreeSet<>(found.stream().map(TopicPartition::partition).toList());
        say("assigned " + indexes.stream().map(String::valueOf).collect(Collectors.joining(",")));
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {}
}
