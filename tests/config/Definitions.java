import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.common.config.ConfigDef;

/**
 * Prints the settings of brokers and topics that the Kafka release on the class path defines, in the format of
 * kafka_4_4.tsv:
 *
 * <pre>java -cp "lib/*" Definitions.java</pre>
 */
public class Definitions {
    private static final Pattern RANGE = Pattern.compile("\\[(-?[0-9.]*),?\\.\\.\\.,?(-?[0-9.]*)\\]");

    public static void main(String[] arguments) throws Exception {
        print("broker", brokerDefinitions(), modes());
        print("topic", topicDefinitions(), Map.of());
    }

    private static ConfigDef brokerDefinitions() throws Exception {
        Class<?> config = Class.forName("org.apache.kafka.server.config.AbstractKafkaConfig");
        return (ConfigDef) config.getField("CONFIG_DEF").get(null);
    }

    private static ConfigDef topicDefinitions() throws Exception {
        Class<?> config = Class.forName("org.apache.kafka.storage.internals.log.LogConfig");
        return (ConfigDef) config.getMethod("configDefCopy").invoke(null);
    }

    private static Map<?, ?> modes() throws Exception {
        Class<?> config = Class.forName("org.apache.kafka.server.config.DynamicBrokerConfig");
        return (Map<?, ?>) config.getMethod("dynamicConfigUpdateModes").invoke(null);
    }

    private static void print(String scope, ConfigDef definitions, Map<?, ?> modes) {
        for (ConfigDef.ConfigKey key : new TreeMap<>(definitions.configKeys()).values()) {
            Object value = key.hasDefault() ? key.defaultValue : null;
            Object mode = modes.get(key.name);
            Matcher range = RANGE.matcher(String.valueOf(key.validator));
            boolean bounded = range.matches();
            System.out.println(String.join("\t",
                scope,
                key.name,
                key.type.name(),
                value == null ? "null" : ConfigDef.convertToString(value, key.type),
                key.importance.name(),
                scope.equals("topic") ? "topic" : mode == null ? "read-only" : mode.toString(),
                bounded ? range.group(1) : "",
                bounded ? range.group(2) : "",
                key.internalConfig ? "internal" : "-"));
        }
    }
}
