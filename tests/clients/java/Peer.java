import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.protocol.Errors;

/**
 * Kafka's Java clients, obeying commands from the standard input: a line of fields between tabs, the first of which is
 * the command's name. Answers are rows that begin with "=", and then "ok", or "error", Kafka's code and a message.
 */
public final class Peer {
    interface Command {
        List<String> run(String[] arguments) throws Exception;
    }

    private static final Map<String, Command> COMMANDS = Map.ofEntries(
        Map.entry("write", Clients::write),
        Map.entry("read", Clients::read),
        Map.entry("read-from", Clients::readFrom),
        Map.entry("offset-at", Clients::offsetAt),
        Map.entry("bounds", Clients::bounds),
        Map.entry("commit", Clients::commit),
        Map.entry("committed", Clients::committed),
        Map.entry("transactional", Transactions::open),
        Map.entry("begin", Transactions::begin),
        Map.entry("send", Transactions::send),
        Map.entry("send-offset", Transactions::sendOffset),
        Map.entry("commit-transaction", Transactions::commit),
        Map.entry("abort-transaction", Transactions::abort),
        Map.entry("close-transactional", Transactions::close),
        Map.entry("read-committed", Transactions::readCommitted),
        Map.entry("transactions", Transactions::list),
        Map.entry("transaction", Transactions::describe),
        Map.entry("producers", Transactions::producers),
        Map.entry("abort-hanging", Transactions::abortHanging),
        Map.entry("fence", Transactions::fence),
        Map.entry("cluster", Admins::cluster),
        Map.entry("create-topic", Admins::createTopic),
        Map.entry("delete-topic", Admins::deleteTopic),
        Map.entry("topics", Admins::topics),
        Map.entry("topic", Admins::topic),
        Map.entry("create-partitions", Admins::createPartitions),
        Map.entry("configs", Admins::configs),
        Map.entry("alter-config", Admins::alterConfig),
        Map.entry("groups", Admins::groups),
        Map.entry("group", Admins::group),
        Map.entry("delete-group", Admins::deleteGroup),
        Map.entry("group-offsets", Admins::groupOffsets),
        Map.entry("alter-group-offset", Admins::alterGroupOffset),
        Map.entry("delete-group-offset", Admins::deleteGroupOffset),
        Map.entry("delete-records", Admins::deleteRecords),
        Map.entry("list-offset", Admins::listOffset),
        Map.entry("log-dirs", Admins::logDirs));

    private Peer() {}

    public static void main(String[] arguments) throws Exception {
        var out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] fields = line.split("\t", -1);
            try {
                for (String row : COMMANDS.get(fields[0]).run(fields)) {
                    out.println("=\t" + row);
                }
                out.println("ok");
            } catch (Exception error) {
                out.println("error\t" + Errors.forException(error).code() + "\t" + flat(error.toString()));
            }
        }
    }

    static String flat(String text) {
        return text.replaceAll("[\\t\\r\\n]+", " ");
    }
}
