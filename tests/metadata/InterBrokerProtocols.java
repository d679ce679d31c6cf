import java.io.BufferedReader;
import java.io.InputStreamReader;
import org.apache.kafka.server.common.MetadataVersion;

/** Prints what Kafka knows of each inter.broker.protocol.version, and then how it reads the lines of the input. */
public class InterBrokerProtocols {
    public static void main(String[] arguments) throws Exception {
        for (MetadataVersion version : MetadataVersion.values()) {
            System.out.println(String.join(" ",
                version.version(),
                "1:" + version.fetchRequestVersion(),
                "2:" + version.listOffsetRequestVersion(),
                "23:" + version.offsetForLeaderEpochRequestVersion(),
                "27:" + version.writeTxnMarkersRequestVersion(),
                "truncates_on_fetch:" + version.isTruncationOnFetchSupported(),
                "has_alter_partition:" + version.isAlterPartitionSupported(),
                "has_topic_ids:" + version.isTopicIdsSupported(),
                "allocates_producer_ids:" + version.isAllocateProducerIdsSupported(),
                "has_leader_recovery_state:" + version.isLeaderRecoverySupported()));
        }
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println("'" + line + "' " + read(line));
        }
    }

    private static String read(String text) {
        try {
            return MetadataVersion.fromVersionString(text).version();
        } catch (IllegalArgumentException invalid) {
            return "none";
        }
    }
}
