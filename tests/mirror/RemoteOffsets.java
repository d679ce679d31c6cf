import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.mirror.RemoteClusterUtils;

/** RemoteOffsets BOOTSTRAP ALIAS GROUP: what MirrorMaker's client finds in a target about a cluster and a group. */
public class RemoteOffsets {
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", arguments[0]);
        System.out.println("hops " + RemoteClusterUtils.replicationHops(settings, arguments[1]));
        System.out.println("upstream " + RemoteClusterUtils.upstreamClusters(settings));
        Map<TopicPartition, OffsetAndMetadata> offsets = RemoteClusterUtils.translateOffsets(
                settings, arguments[1], arguments[2], Duration.ofSeconds(20));
        Map<String, OffsetAndMetadata> sorted = new TreeMap<>();
        offsets.forEach((partition, offset) -> sorted.put(partition.toString(), offset));
        sorted.forEach((partition, offset) ->
                System.out.println(partition + " " + offset.offset() + " " + offset.metadata()));
    }
}
