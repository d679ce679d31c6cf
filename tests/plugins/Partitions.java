import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HexFormat;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;
import org.apache.kafka.common.utils.Utils;

/** For each line, a key in hexadecimal digits, prints its hash and the partition, of as many as the argument says. */
public class Partitions {
    public static void main(String[] arguments) throws Exception {
        int partitions = Integer.parseInt(arguments[0]);
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            byte[] key = HexFormat.of().parseHex(line);
            int partition = BuiltInPartitioner.partitionForKey(key, partitions);
            System.out.println(Integer.toUnsignedString(Utils.murmur2(key)) + " " + partition);
        }
    }
}
