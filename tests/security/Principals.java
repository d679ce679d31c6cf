import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;

/**
 * Reads lines with rules and names, in hex and separated by spaces. For each line it prints what each name becomes in
 * hex, "none" if no rule applies, or "error".
 */
public class Principals {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] parts = line.split(" ", -1);
            List<String> answers = new ArrayList<>();
            for (int index = 1; index < parts.length; index++) {
                answers.add(answer(text(parts[0]), text(parts[index])));
            }
            System.out.println(String.join(" ", answers));
        }
        System.out.flush();
    }

    private static String answer(String rules, String name) {
        try {
            return "=" + hex(SslPrincipalMapper.fromRules(rules).getName(name));
        } catch (java.io.IOException error) {
            return "none";
        } catch (RuntimeException error) {
            return "error";
        }
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
