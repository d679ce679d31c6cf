import com.fasterxml.jackson.databind.JsonNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.MessageUtil;

/** Reads lines of a message's name, version and bytes; prints the bytes that Kafka writes for it, and its values. */
public class Messages {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ", -1);
            answer(words[0], Short.parseShort(words[1]), HexFormat.of().parseHex(words[2]));
        }
    }

    private static String className(String name) {
        if (name.endsWith("Record")) {
            return "common.metadata." + name;
        }
        if (name.endsWith("Key") || name.endsWith("Value")) {
            return "coordinator.group.generated." + name;
        }
        return "common.message." + name + "Data";
    }

    private static void answer(String name, short version, byte[] bytes) throws Exception {
        Class<?> type = Class.forName("org.apache.kafka." + className(name));
        ApiMessage message = (ApiMessage) type.getConstructor().newInstance();
        ByteBuffer buffer = ByteBuffer.wrap(bytes);
        message.read(new ByteBufferAccessor(buffer), version);
        if (buffer.hasRemaining()) {
            throw new IllegalStateException(name + " " + version + " leaves " + buffer.remaining() + " bytes");
        }
        Class<?> converter = Class.forName(type.getName() + "JsonConverter");
        Object values = converter.getMethod("write", type, short.class).invoke(null, message, version);
        byte[] prefixed = MessageUtil.toVersionPrefixedByteBuffer(version, message).array();
        byte[] written = Arrays.copyOfRange(prefixed, Short.BYTES, prefixed.length);
        System.out.println(HexFormat.of().formatHex(written) + " " + (JsonNode) values);
    }
}
