import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.metrics.QuotaViolationException;
import org.apache.kafka.common.metrics.Sensor;
import org.apache.kafka.common.metrics.stats.Rate;
import org.apache.kafka.common.metrics.stats.TokenBucket;

/**
 * Measures with Kafka's Rate or TokenBucket in a sensor, and prints throttle times as QuotaUtils computes them.
 *
 * <pre>
 * rate    samples  seconds  quota      another measure
 * bucket  samples  seconds  quota
 * record  value  ms                    records at a time, and prints the throttle time
 * </pre>
 */
public class Rates {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        MetricConfig config = null;
        Sensor sensor = null;
        boolean isRate = true;
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            if (!words[0].equals("record")) {
                isRate = words[0].equals("rate");
                config = new MetricConfig().samples(Integer.parseInt(words[1]))
                    .timeWindow(Long.parseLong(words[2]), TimeUnit.SECONDS)
                    .quota(Quota.upperBound(Double.parseDouble(words[3])));
                Metrics metrics = new Metrics();
                sensor = metrics.sensor("s");
                MetricName name = metrics.metricName("m", "g");
                sensor.add(name, isRate ? new Rate() : new TokenBucket(), config);
                continue;
            }
            long now = Long.parseLong(words[2]);
            try {
                sensor.record(Double.parseDouble(words[1]), now, true);
                System.out.println(0);
            } catch (QuotaViolationException e) {
                if (isRate) {
                    double window = ((Rate) e.metric().measurable()).windowSize(config, now);
                    System.out.println(Math.round((e.value() - e.bound()) / e.bound() * window));
                } else {
                    System.out.println(Math.round(-e.value() * 1000 / e.bound()));
                }
            }
        }
    }
}
