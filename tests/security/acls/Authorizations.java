import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/**
 * Decides with Kafka's StandardAuthorizer. Fields of a line are between tabs, codes are those of the protocol:
 *
 * <pre>
 * new     super users    allow.everyone.if.no.acl.found    another authorizer, without ACLs
 * acl     type  name  pattern  principal  host  operation  permission
 * check   principal  host  operation  type  name           prints + or -
 * any     principal  host  operation  type                 prints + or -
 * </pre>
 */
public class Authorizations {
    private static final class Caller implements AuthorizableRequestContext {
        private final KafkaPrincipal principal;
        private final InetAddress address;

        Caller(String name, String host) throws Exception {
            String[] parts = name.split(":", 2);
            principal = new KafkaPrincipal(parts[0], parts[1]);
            address = InetAddress.getByName(host);
        }

        public String listenerName() { return "PLAINTEXT"; }
        public SecurityProtocol securityProtocol() { return SecurityProtocol.PLAINTEXT; }
        public KafkaPrincipal principal() { return principal; }
        public InetAddress clientAddress() { return address; }
        public int requestType() { return 0; }
        public int requestVersion() { return 0; }
        public String clientId() { return "tests"; }
        public int correlationId() { return 0; }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        StringBuilder verdicts = new StringBuilder();
        StandardAuthorizer authorizer = null;
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t", -1);
            switch (words[0]) {
                case "new":
                    authorizer = opened(words[1], words[2]);
                    break;
                case "acl":
                    authorizer.addAcl(Uuid.randomUuid(), new StandardAcl(
                        ResourceType.fromCode(Byte.parseByte(words[1])), words[2],
                        PatternType.fromCode(Byte.parseByte(words[3])), words[4], words[5],
                        AclOperation.fromCode(Byte.parseByte(words[6])),
                        AclPermissionType.fromCode(Byte.parseByte(words[7]))));
                    break;
                default:
                    verdicts.append(isAllowed(authorizer, words) ? '+' : '-');
            }
        }
        System.out.println(verdicts);
    }

    private static StandardAuthorizer opened(String superUsers, String allowsEveryone) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("super.users", superUsers);
        settings.put("allow.everyone.if.no.acl.found", allowsEveryone);
        StandardAuthorizer authorizer = new StandardAuthorizer();
        authorizer.configure(settings);
        authorizer.completeInitialLoad();
        return authorizer;
    }

    private static boolean isAllowed(StandardAuthorizer authorizer, String[] words) throws Exception {
        Caller caller = new Caller(words[1], words[2]);
        AclOperation operation = AclOperation.fromCode(Byte.parseByte(words[3]));
        ResourceType type = ResourceType.fromCode(Byte.parseByte(words[4]));
        if (words[0].equals("any"))
            return authorizer.authorizeByResourceType(caller, operation, type) == AuthorizationResult.ALLOWED;
        ResourcePattern resource = new ResourcePattern(type, words[5], PatternType.LITERAL);
        List<Action> actions = new ArrayList<>();
        actions.add(new Action(operation, resource, 1, false, false));
        return authorizer.authorize(caller, actions).get(0) == AuthorizationResult.ALLOWED;
    }
}
