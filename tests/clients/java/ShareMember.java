import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * A share consumer that follows commands on its input. Arguments: bootstrap, topic, group, then settings as name=value.
 *
 * poll SECONDS          polls until there are records; prints partition:offset:deliveryCount:value of each, or none
 * ack TYPE [OFFSET...]  acknowledges records of the last poll, all without offsets
 * commit                commits, prints the errors by partition, or ok
 * close
 */
public class ShareMember {
    public static void main(String[] args) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", args[0]);
        settings.put("group.id", args[2]);
        settings.put("share.acknowledgement.mode", "explicit");
        for (int i = 3; i < args.length; i++) {
            String[] setting = args[i].split("=", 2);
            settings.put(setting[0], setting[1]);
        }
        StringDeserializer text = new StringDeserializer();
        KafkaShareConsumer<String, String> consumer = new KafkaShareConsumer<>(settings, text, text);
        consumer.subscribe(List.of(args[1]));
        Map<Long, ConsumerRecord<String, String>> last = new LinkedHashMap<>();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        String line;
        while ((line = input.readLine()) != null) {
            String[] words = line.split(" ");
            try {
                switch (words[0]) {
                    case "poll" -> poll(consumer, last, Long.parseLong(words[1]));
                    case "ack" -> acknowledge(consumer, last, words);
                    case "commit" -> commit(consumer);
                    case "close" -> {
                        consumer.close();
                        System.out.println("closed");
                        return;
                    }
                    default -> System.out.println("unknown");
                }
            } catch (Exception error) {
                System.out.println("error " + error.getClass().getSimpleName() + " " + error.getMessage());
            }
            System.out.flush();
        }
        consumer.close();
    }

    private static void poll(
            KafkaShareConsumer<String, String> consumer, Map<Long, ConsumerRecord<String, String>> last, long seconds) {
        last.clear();
        long deadline = System.nanoTime() + seconds * 1_000_000_000L;
        do {
            for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
                last.put(record.offset(), record);
            }
        } while (last.isEmpty() && System.nanoTime() < deadline);
        StringBuilder out = new StringBuilder();
        for (ConsumerRecord<String, String> record : last.values()) {
            out.append(record.partition()).append(':').append(record.offset()).append(':');
            out.append(record.deliveryCount().orElse((short) -1)).append(':').append(record.value()).append(' ');
        }
        System.out.println(last.isEmpty() ? "none" : out.toString().trim());
    }

    private static void acknowledge(
            KafkaShareConsumer<String, String> consumer, Map<Long, ConsumerRecord<String, String>> last, String[] words) {
        AcknowledgeType type = AcknowledgeType.valueOf(words[1]);
        if (words.length == 2) {
            last.values().forEach(record -> consumer.acknowledge(record, type));
        }
        for (int i = 2; i < words.length; i++) {
            consumer.acknowledge(last.get(Long.parseLong(words[i])), type);
        }
        System.out.println("ok");
    }

    private static void commit(KafkaShareConsumer<String, String> consumer) {
        StringBuilder out = new StringBuilder();
        consumer.commitSync().forEach((partition, error) -> error.ifPresent(
                why -> out.append(partition.partition()).append(':').append(why.getClass().getSimpleName()).append(' ')));
        System.out.println(out.length() == 0 ? "ok" : out.toString().trim());
    }
}
