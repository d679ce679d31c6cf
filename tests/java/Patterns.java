import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;

/**
 * Reads lines with a pattern and texts, in hex and separated by spaces. For each line it prints "error", or for each text
 * the groups of a match of the whole text, "/", and those of the matches that are found from the left: start,end of each.
 */
public class Patterns {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] parts = line.split(" ", -1);
            try {
                System.out.println(answer(text(parts[0]), parts));
            } catch (NullPointerException error) { // some malformed classes are accepted, and fail at a match
                System.out.println("error");
            }
        }
        System.out.flush();
    }

    private static String answer(String pattern, String[] parts) {
        Pattern compiled;
        try {
            compiled = Pattern.compile(pattern);
        } catch (PatternSyntaxException error) {
            return "error";
        }
        List<String> answers = new ArrayList<>();
        for (int index = 1; index < parts.length; index++) {
            String text = text(parts[index]);
            Matcher matcher = compiled.matcher(text);
            StringBuilder answer = new StringBuilder(matcher.matches() ? groups(matcher, text) : "");
            answer.append("/");
            matcher = compiled.matcher(text); // a reset one finds less after some failures
            while (matcher.find()) {
                answer.append(groups(matcher, text)).append(";");
            }
            answers.add(answer.toString());
        }
        return String.join(" ", answers);
    }

    private static String groups(Matcher matcher, String text) {
        List<String> spans = new ArrayList<>();
        for (int group = 0; group <= matcher.groupCount(); group++) {
            int start = matcher.start(group);
            spans.add(start < 0 ? "-" : place(text, start) + "," + place(text, matcher.end(group)));
        }
        return String.join(":", spans);
    }

    private static int place(String text, int index) {
        return text.codePointCount(0, index);
    }

    private static String text(String hex) {
        byte[] bytes = new byte[hex.length() / 2];
        for (int index = 0; index < bytes.length; index++) {
            bytes[index] = (byte) Integer.parseInt(hex.substring(2 * index, 2 * index + 2), 16);
        }
        return new String(bytes, StandardCharsets.UTF_8);
    }
}
