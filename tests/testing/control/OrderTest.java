import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/** A test as programs in Java have them: a producer survives two errors, and what it sent is an hour old later. */
public class OrderTest {
    private final HttpClient http = HttpClient.newHttpClient();
    private final String control;

    OrderTest(String control) {
        this.control = control;
    }

    public static void main(String[] arguments) throws Exception {
        OrderTest test = new OrderTest(arguments[0]);
        String bootstrap = test.field("bootstrap", test.ask("GET", "/broker", ""));
        test.ask("POST", "/topics", "{\"name\": \"java-orders\"}");
        String fault = "{\"api\": \"Produce\", \"error\": \"NOT_LEADER_OR_FOLLOWER\", \"times\": 2, \"must_fire\": true}";
        String number = test.field("id", test.ask("POST", "/faults", fault));
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "enable.idempotence", true);
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            long offset = producer.send(new ProducerRecord<>("java-orders", "tea")).get().offset();
            System.out.println("offset " + offset);
        }
        test.ask("POST", "/faults/" + number + "/wait", "{\"hits\": 2}");
        System.out.println("hits " + test.field("hits", test.ask("GET", "/faults/" + number, "")));
        test.ask("POST", "/faults/check", "");
        double before = Double.parseDouble(test.field("seconds", test.ask("GET", "/clock", "")));
        test.ask("POST", "/clock/advance", "{\"duration\": \"1h\"}");
        double after = Double.parseDouble(test.field("seconds", test.ask("GET", "/clock", "")));
        System.out.println("an hour later: " + (after - before >= 3600));
    }

    private String ask(String method, String path, String body) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(URI.create(control + "/api" + path))
                .header("Content-Type", "application/json")
                .method(method, HttpRequest.BodyPublishers.ofString(body))
                .build();
        HttpResponse<String> answer = http.send(request, HttpResponse.BodyHandlers.ofString());
        if (answer.statusCode() != 200) {
            throw new AssertionError(path + ": " + answer.body());
        }
        return answer.body();
    }

    private String field(String name, String json) {
        Matcher found = Pattern.compile("\"" + name + "\": \"?([^\",}]*)").matcher(json);
        if (!found.find()) {
            throw new AssertionError(name + " is not in " + json);
        }
        return found.group(1);
    }
}
