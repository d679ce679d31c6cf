import java.io.InputStream;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;

/** Prints the version of the clients it runs with, then its arguments and what it reads. */
public class Version {
    public static void main(String[] arguments) throws Exception {
        Properties version = new Properties();
        try (InputStream file = KafkaProducer.class.getResourceAsStream("/kafka/kafka-version.properties")) {
            version.load(file);
        }
        System.out.println(version.getProperty("version"));
        System.out.println(String.join(",", arguments));
        System.in.transferTo(System.out);
    }
}
