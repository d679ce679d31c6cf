import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * Asks Java's assignors. A line of input is one group:
 *
 * assignor topic=partitions,... member/instance/hexadecimal subscription ...
 *
 * and the line of output for it: member=topic:partition,... ... and, behind a bar, the subscriptions as Java writes them.
 */
public class Assignors {
    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            System.out.println(answer(line.split(" ")));
        }
    }

    private static String answer(String[] words) {
        Map<String, Subscription> members = new HashMap<>();
        List<String> written = new ArrayList<>();
        for (int at = 2; at < words.length; at++) {
            String[] parts = words[at].split("/", -1);
            ByteBuffer bytes = ByteBuffer.wrap(HexFormat.of().parseHex(parts[2]));
            Subscription subscription = ConsumerProtocol.deserializeSubscription(bytes);
            subscription.setGroupInstanceId(parts[1].isEmpty() ? Optional.empty() : Optional.of(parts[1]));
            members.put(parts[0], subscription);
            written.add(hex(ConsumerProtocol.serializeSubscription(subscription)));
        }
        String assigned = new TreeMap<>(assignor(words[0]).assign(cluster(words[1]), new GroupSubscription(members))
            .groupAssignment()).entrySet().stream()
            .map(each -> each.getKey() + "=" + text(each.getValue().partitions()))
            .collect(Collectors.joining(" "));
        return assigned + "|" + String.join(" ", written);
    }

    private static String text(List<TopicPartition> partitions) {
        return partitions.stream().map(each -> each.topic() + ":" + each.partition()).collect(Collectors.joining(","));
    }

    private static String hex(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return HexFormat.of().formatHex(bytes);
    }

    private static ConsumerPartitionAssignor assignor(String name) {
        return switch (name) {
            case "range" -> new RangeAssignor();
            case "roundrobin" -> new RoundRobinAssignor();
            case "sticky" -> new StickyAssignor();
            default -> new CooperativeStickyAssignor();
        };
    }

    private static Cluster cluster(String topics) {
        Node node = new Node(0, "localhost", 9092);
        Node[] replicas = {node};
        List<PartitionInfo> partitions = new ArrayList<>();
        for (String topic : topics.split(",")) {
            String[] parts = topic.split("=");
            for (int number = 0; number < Integer.parseInt(parts[1]); number++) {
                partitions.add(new PartitionInfo(parts[0], number, node, replicas, replicas));
            }
        }
        return new Cluster("cluster", List.of(node), partitions, Set.of(), Set.of());
    }
}
