import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/**
 * One member of a consumer group in a process of its own; see tests/clients/members/base.py for what it prints and obeys.
 * Arguments: bootstrap, group, topic, session timeout in ms, group instance id or "-", simple name of an assignor, or
 * "uniform" for a member of KIP-848.
 */
public final class Member implements ConsumerRebalanceListener {
    private final TreeSet<Integer> assigned = new TreeSet<>();

    public static void main(String[] a) throws Exception {
        Map<String, Object> more = new HashMap<>(Map.of(
            "group.id", a[1], "retry.backoff.ms", "50", "metadata.max.age.ms", "2000"));
        more.putAll(a[5].equals("uniform")
            ? Map.of("group.protocol", "consumer", "group.remote.assignor", a[5])
            : Map.of("session.timeout.ms", a[3], "heartbeat.interval.ms", "200",
                "partition.assignment.strategy", "org.apache.kafka.clients.consumer." + a[5]));
        if (!a[4].equals("-")) {
            more.put("group.instance.id", a[4]);
        }
        Queue<String> commands = commands();
        try (var consumer = Clients.consumer(a[0], more)) {
            consumer.subscribe(List.of(a[2]), new Member());
            for (String command = ""; !command.equals("close"); ) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(50))) {
                    System.out.println("record\t" + Rows.row(record));
                }
                command = commands.isEmpty() ? "" : commands.remove();
                if (command.startsWith("commit")) {
                    commit(consumer, command.substring("commit".length()).strip());
                }
            }
        }
        System.out.println("closed");
    }

    private static void commit(org.apache.kafka.clients.consumer.Consumer<?, ?> consumer, String metadata) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (TopicPartition each : consumer.assignment()) {
            offsets.put(each, new OffsetAndMetadata(consumer.position(each), metadata));
        }
        consumer.commitSync(offsets);
        System.out.println("committed");
    }

    private static Queue<String> commands() {
        Queue<String> commands = new ConcurrentLinkedQueue<>();
        Thread reader = new Thread(() -> new BufferedReader(new InputStreamReader(System.in)).lines()
            .forEach(commands::add));
        reader.setDaemon(true);
        reader.start();
        return commands;
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        partitions.forEach(each -> assigned.add(each.partition()));
        System.out.println("assigned\t" + assigned.stream().map(String::valueOf).collect(Collectors.joining(",")));
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        partitions.forEach(each -> assigned.remove(each.partition()));
    }
}
