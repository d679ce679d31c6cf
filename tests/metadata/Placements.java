import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import org.apache.kafka.admin.AdminUtils;
import org.apache.kafka.admin.BrokerMetadata;

/** Places partitions: each line has start, first partition, partitions, replicas, and brokers as id or id:rack. */
public class Placements {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            List<BrokerMetadata> brokers = new ArrayList<>();
            for (int at = 4; at < words.length; at++) {
                String[] broker = words[at].split(":");
                Optional<String> rack = broker.length > 1 ? Optional.of(broker[1]) : Optional.empty();
                brokers.add(new BrokerMetadata(Integer.parseInt(broker[0]), rack));
            }
            Map<Integer, List<Integer>> placed = AdminUtils.assignReplicasToBrokers(brokers,
                Integer.parseInt(words[2]), Integer.parseInt(words[3]), Integer.parseInt(words[0]),
                Integer.parseInt(words[1]));
            System.out.println(new TreeMap<>(placed));
        }
    }
}
