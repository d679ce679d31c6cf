import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Producers that write in transactions, kept by their numbers; readers of committed records; administration. */
final class Transactions {
    private static final Map<String, KafkaProducer<byte[], byte[]>> PRODUCERS = new HashMap<>();
    private static int last = 0;

    private Transactions() {}

    /** bootstrap transactional-id timeout-ms */
    static List<String> open(String[] a) {
        Map<String, Object> settings = Clients.settings(a[1]);
        settings.put("transactional.id", a[2]);
        settings.put("transaction.timeout.ms", a[3]);
        settings.put("linger.ms", 0);
        settings.put("delivery.timeout.ms", 120000);
        settings.put("max.block.ms", 120000);
        var bytes = new ByteArraySerializer();
        var producer = new KafkaProducer<>(settings, bytes, bytes);
        producer.initTransactions();
        String number = String.valueOf(++last);
        PRODUCERS.put(number, producer);
        return List.of(number);
    }

    /** number */
    static List<String> begin(String[] a) {
        PRODUCERS.get(a[1]).beginTransaction();
        return List.of();
    }

    /** number topic partition value */
    static List<String> send(String[] a) throws Exception {
        byte[] value = a[4].getBytes(StandardCharsets.UTF_8);
        try {
            PRODUCERS.get(a[1]).send(new ProducerRecord<>(a[2], Integer.valueOf(a[3]), null, value)).get();
        } catch (ExecutionException error) {
            throw (Exception) error.getCause();
        }
        return List.of();
    }

    /** number group topic partition offset */
    static List<String> sendOffset(String[] a) {
        TopicPartition partition = new TopicPartition(a[3], Integer.parseInt(a[4]));
        Map<TopicPartition, OffsetAndMetadata> offsets = Map.of(partition, new OffsetAndMetadata(Long.parseLong(a[5])));
        PRODUCERS.get(a[1]).sendOffsetsToTransaction(offsets, new ConsumerGroupMetadata(a[2]));
        return List.of();
    }

    /** number */
    static List<String> commit(String[] a) {
        PRODUCERS.get(a[1]).commitTransaction();
        return List.of();
    }

    /** number */
    static List<String> abort(String[] a) {
        PRODUCERS.get(a[1]).abortTransaction();
        return List.of();
    }

    /** number */
    static List<String> close(String[] a) {
        PRODUCERS.remove(a[1]).close(Duration.ZERO);
        return List.of();
    }

    /** bootstrap topic partition */
    static List<String> readCommitted(String[] a) {
        try (var consumer = Clients.consumer(a[1], Map.of("isolation.level", "read_committed"))) {
            TopicPartition partition = new TopicPartition(a[2], Integer.parseInt(a[3]));
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            long end = consumer.endOffsets(List.of(partition)).get(partition);
            List<String> values = new ArrayList<>();
            while (consumer.position(partition) < end) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    values.add(new String(record.value(), StandardCharsets.UTF_8));
                }
            }
            return values;
        }
    }

    /** bootstrap: a row of id, producer id and state for each transactional id */
    static List<String> list(String[] a) throws Exception {
        try (Admin admin = Admin.create(Clients.settings(a[1]))) {
            Set<String> rows = new TreeSet<>();
            for (var each : admin.listTransactions().all().get()) {
                rows.add(String.join("\t", each.transactionalId(), String.valueOf(each.producerId()),
                    each.state().toString()));
            }
            return List.copyOf(rows);
        }
    }

    /** bootstrap transactional-id: state, producer id, epoch, timeout, whether it began, partitions */
    static List<String> describe(String[] a) throws Exception {
        try (Admin admin = Admin.create(Clients.settings(a[1]))) {
            var found = admin.describeTransactions(List.of(a[2])).description(a[2]).get();
            Set<String> partitions = new TreeSet<>();
            found.topicPartitions().forEach(each -> partitions.add(each.toString()));
            return List.of(String.join("\t", found.state().toString(), String.valueOf(found.producerId()),
                String.valueOf(found.producerEpoch()), String.valueOf(found.transactionTimeoutMs()),
                String.valueOf(found.transactionStartTimeMs().isPresent()), String.join(",", partitions)));
        } catch (ExecutionException error) {
            throw (Exception) error.getCause();
        }
    }

    /** bootstrap topic partition: producer id, epoch, last sequence, coordinator epoch, start of the transaction */
    static List<String> producers(String[] a) throws Exception {
        TopicPartition partition = new TopicPartition(a[2], Integer.parseInt(a[3]));
        try (Admin admin = Admin.create(Clients.settings(a[1]))) {
            List<String> rows = new ArrayList<>();
            for (var each : admin.describeProducers(List.of(partition)).partitionResult(partition).get()
                .activeProducers()) {
                rows.add(String.join("\t", String.valueOf(each.producerId()), String.valueOf(each.producerEpoch()),
                    String.valueOf(each.lastSequence()), String.valueOf(each.coordinatorEpoch().orElse(-1)),
                    String.valueOf(each.currentTransactionStartOffset().orElse(-1))));
            }
            return rows;
        } catch (ExecutionException error) {
            throw (Exception) error.getCause();
        }
    }

    /** bootstrap topic partition producer-id epoch coordinator-epoch */
    static List<String> abortHanging(String[] a) throws Exception {
        TopicPartition partition = new TopicPartition(a[2], Integer.parseInt(a[3]));
        var spec = new AbortTransactionSpec(partition, Long.parseLong(a[4]), Short.parseShort(a[5]),
            Integer.parseInt(a[6]));
        try (Admin admin = Admin.create(Clients.settings(a[1]))) {
            admin.abortTransaction(spec).all().get();
            return List.of();
        } catch (ExecutionException error) {
            throw (Exception) error.getCause();
        }
    }

    /** bootstrap transactional-id */
    static List<String> fence(String[] a) throws Exception {
        try (Admin admin = Admin.create(Clients.settings(a[1]))) {
            admin.fenceProducers(List.of(a[2])).all().get();
            return List.of();
        } catch (ExecutionException error) {
            throw (Exception) error.getCause();
        }
    }
}
