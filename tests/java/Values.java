import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.config.types.Password;

/** Reads lines with a type of Kafka's settings and a text in hex; prints the value as Kafka writes it, or "error". */
public class Values {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] parts = line.split(" ", -1);
            ConfigDef.Type type = ConfigDef.Type.valueOf(parts[0]);
            try {
                Object value = ConfigDef.parseType("name", text(parts[1]), type);
                boolean isHidden = value instanceof Password;
                System.out.println("=" + hex(isHidden ? ((Password) value).value() : ConfigDef.convertToString(value, type)));
            } catch (ConfigException error) {
                System.out.println("error");
            }
        }
        System.out.flush();
    }

    private static String hex(String text) {
        StringBuilder digits = new StringBuilder();
        for (byte each : text.getBytes(StandardCharsets.UTF_8)) {
            digits.append(String.format("%02x", each));
        }
        return digits.toString();
    }

    private static String text(String hex) {
        byte[] bytes = new byte[hex.length() / 2];
        for (int index = 0; index < bytes.length; index++) {
            bytes[index] = (byte) Integer.parseInt(hex.substring(2 * index, 2 * index + 2), 16);
        }
        return new String(bytes, StandardCharsets.UTF_8);
    }
}
