import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import javax.security.auth.callback.Callback;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerTokenCallback;

/**
 * Connects with the settings of each line of the standard input, name=value between tabs. For each it prints "served", or
 * the class of the error. With talk.ms, it asks again and again for this time.
 */
public final class Logins {
    private Logins() {}

    public static void main(String[] arguments) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var threads = Executors.newFixedThreadPool(8);
        List<Future<String>> outcomes = new ArrayList<>();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Map<String, Object> settings = settings(line);
            outcomes.add(threads.submit(() -> outcome(settings)));
        }
        for (Future<String> outcome : outcomes) {
            System.out.println(outcome.get());
        }
        threads.shutdown();
    }

    private static Map<String, Object> settings(String line) {
        Map<String, Object> settings = new HashMap<>();
        for (String field : line.split("\t")) {
            int end = field.indexOf('=');
            settings.put(field.substring(0, end), field.substring(end + 1));
        }
        if ("OAUTHBEARER".equals(settings.get("sasl.mechanism"))) {
            settings.put("sasl.login.callback.handler.class", Tokens.class);
        }
        return settings;
    }

    private static String outcome(Map<String, Object> settings) throws Exception {
        Object talk = settings.remove("talk.ms");
        long talkMs = talk == null ? 0 : Long.parseLong((String) talk);
        try (Admin admin = Admin.create(settings)) {
            long until = System.nanoTime() + talkMs * 1_000_000;
            do {
                admin.describeCluster().clusterId().get();
            } while (System.nanoTime() < until);
            return "served";
        } catch (ExecutionException error) {
            return error.getCause().getClass().getSimpleName();
        }
    }

    /** Gives the token that is in the JAAS configuration, whatever it is. */
    public static final class Tokens implements AuthenticateCallbackHandler {
        private String value;

        @Override
        public void configure(Map<String, ?> settings, String mechanism, List<AppConfigurationEntry> entries) {
            value = (String) entries.get(0).getOptions().get("token");
        }

        @Override
        public void handle(Callback[] callbacks) {
            for (Callback callback : callbacks) {
                if (callback instanceof OAuthBearerTokenCallback) {
                    ((OAuthBearerTokenCallback) callback).token(new Token(value));
                }
            }
        }

        @Override
        public void close() {}
    }

    private static final class Token implements OAuthBearerToken {
        private final String value;

        Token(String value) {
            this.value = value;
        }

        @Override
        public String value() {
            return value;
        }

        @Override
        public Set<String> scope() {
            return Set.of();
        }

        @Override
        public long lifetimeMs() {
            return System.currentTimeMillis() + 600_000;
        }

        @Override
        public String principalName() {
            return "alice";
        }

        @Override
        public Long startTimeMs() {
            return System.currentTimeMillis();
        }
    }
}
