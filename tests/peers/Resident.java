import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;

/**
 * Runs the main methods of other programs, each as if it had a JVM of its own: its arguments, standard streams and exit
 * status. Prints the port it listens on. A connection is one run:
 *
 * <pre>
 * request   libraries, classes, main class: text; arguments: int32 count, text each; input: bytes
 * answer    status: int32; output: bytes; errors: bytes
 * text      bytes of UTF-8; bytes: int32 length, content
 * </pre>
 *
 * Libraries and classes are paths between colons. Libraries stay loaded from run to run, and serve one run at a time,
 * since many programs keep state in static fields; runs side by side load them again. Classes are loaded for one run.
 *
 * A program ends when its main method has returned and the threads that it left have ended, or when it calls Kafka's
 * `Exit`, on any thread. Its shutdown hooks run then. It must not call `System.exit`,
 * or leave work to shutdown hooks of the JVM itself.
 */
public final class Resident {
    /** Kafka's `Exit`, as it is called up to release 3.9, and in 4.4. */
    private static final List<String> EXITS =
            List.of("org.apache.kafka.common.utils.Exit", "org.apache.kafka.common.utils.internals.Exit");
    private static final PrintStream CONSOLE = System.out;
    private static final InheritableThreadLocal<Run> CURRENT = new InheritableThreadLocal<>();
    private static final Map<String, Deque<URLClassLoader>> IDLE = new HashMap<>();

    private Resident() {}

    public static void main(String[] arguments) throws IOException {
        System.setIn(new Input());
        System.setOut(new PrintStream(new Output(false), true));
        System.setErr(new PrintStream(new Output(true), true));
        try (ServerSocket server = new ServerSocket(0, 50, InetAddress.getLoopbackAddress())) {
            CONSOLE.println("port " + server.getLocalPort());
            while (true) {
                Socket socket = server.accept();
                Thread thread = new Thread(() -> serve(socket));
                thread.setDaemon(true);
                thread.start();
            }
        }
    }

    private static void serve(Socket socket) {
        try (socket) {
            var in = new DataInputStream(socket.getInputStream());
            String libraries = text(in);
            String classes = text(in);
            String name = text(in);
            String[] arguments = new String[in.readInt()];
            for (int each = 0; each < arguments.length; each++) {
                arguments[each] = text(in);
            }
            Run run = new Run(bytes(in));
            URLClassLoader loader = take(libraries);
            int status = run.go(loader, classes, name, arguments);
            if (run.isOver()) {
                giveBack(libraries, loader);
            }
            var answer = new ByteArrayOutputStream();
            var out = new DataOutputStream(answer);
            out.writeInt(status);
            for (ByteArrayOutputStream stream : List.of(run.output, run.errors)) {
                byte[] content = stream.toByteArray();
                out.writeInt(content.length);
                out.write(content);
            }
            answer.writeTo(socket.getOutputStream());
        } catch (Exception error) {
            error.printStackTrace(CONSOLE);
        }
    }

    private static byte[] bytes(DataInputStream in) throws IOException {
        return in.readNBytes(in.readInt());
    }

    private static String text(DataInputStream in) throws IOException {
        return new String(bytes(in), StandardCharsets.UTF_8);
    }

    private static URL[] urls(String paths) throws IOException {
        String[] each = paths.split(":");
        URL[] urls = new URL[each.length];
        for (int number = 0; number < each.length; number++) {
            urls[number] = Path.of(each[number]).toUri().toURL();
        }
        return urls;
    }

    private static URLClassLoader take(String libraries) throws Exception {
        synchronized (IDLE) {
            Deque<URLClassLoader> idle = IDLE.computeIfAbsent(libraries, key -> new ArrayDeque<>());
            if (!idle.isEmpty()) {
                return idle.pop();
            }
        }
        var loader = new URLClassLoader(urls(libraries), ClassLoader.getPlatformClassLoader());
        for (String exit : EXITS) {
            if (loader.getResource(exit.replace('.', '/') + ".class") != null) {
                replaceExit(loader, exit);
            }
        }
        return loader;
    }

    private static void giveBack(String libraries, URLClassLoader loader) {
        synchronized (IDLE) {
            IDLE.get(libraries).push(loader);
        }
    }

    /** Lets `Exit.exit` and `Exit.halt` end a run, and keeps its shutdown hooks. */
    private static void replaceExit(URLClassLoader loader, String name) throws Exception {
        Class<?> exit = loader.loadClass(name);
        Class<?> procedure = loader.loadClass(name + "$Procedure");
        Class<?> adder = loader.loadClass(name + "$ShutdownHookAdder");
        Object end = Proxy.newProxyInstance(loader, new Class<?>[] {procedure}, (proxy, method, values) -> {
            throw CURRENT.get().exit((Integer) values[0]);
        });
        Object add = Proxy.newProxyInstance(loader, new Class<?>[] {adder}, (proxy, method, values) -> {
            CURRENT.get().hooks.add((Runnable) values[1]);
            return null;
        });
        exit.getMethod("setExitProcedure", procedure).invoke(null, end);
        exit.getMethod("setHaltProcedure", procedure).invoke(null, end);
        exit.getMethod("setShutdownHookAdder", adder).invoke(null, add);
    }

    /** Ends the thread that has called `Exit`. */
    private static final class Ended extends Error {
        Ended() {
            super(null, null, false, false);
        }
    }

    private static final class Run {
        final InputStream input;
        final ByteArrayOutputStream output = new ByteArrayOutputStream();
        final ByteArrayOutputStream errors = new ByteArrayOutputStream();
        final Queue<Runnable> hooks = new ConcurrentLinkedQueue<>();
        private final CompletableFuture<Integer> status = new CompletableFuture<>();
        private final ThreadGroup group = new ThreadGroup("run");

        Run(byte[] input) {
            this.input = new ByteArrayInputStream(input);
        }

        Ended exit(int code) {
            status.complete(code);
            return new Ended();
        }

        int go(URLClassLoader libraries, String classes, String name, String[] arguments) throws Exception {
            Thread thread = new Thread(group, () -> main(libraries, classes, name, arguments), "main");
            thread.start();
            int code = status.get();
            thread.join(1000);
            Thread ending = new Thread(group, this::runHooks, "shutdown hooks");
            ending.start();
            ending.join();
            System.out.flush();
            return code;
        }

        /** Whether no thread is left that could disturb the next run. */
        boolean isOver() {
            return left().isEmpty();
        }

        private void main(URLClassLoader libraries, String classes, String name, String[] arguments) {
            CURRENT.set(this);
            try {
                ClassLoader loader = classes.isEmpty() ? libraries : new URLClassLoader(urls(classes), libraries);
                Thread.currentThread().setContextClassLoader(loader);
                loader.loadClass(name).getMethod("main", String[].class).invoke(null, (Object) arguments);
                for (Thread each : left()) {
                    if (each != Thread.currentThread()) {
                        each.join();
                    }
                }
                status.complete(0);
            } catch (InvocationTargetException error) {
                if (!(error.getCause() instanceof Ended)) {
                    System.err.print("Exception in thread \"main\" ");
                    error.getCause().printStackTrace();
                    status.complete(1);
                }
            } catch (Exception error) {
                error.printStackTrace();
                status.complete(1);
            }
        }

        private void runHooks() {
            CURRENT.set(this);
            hooks.forEach(Runnable::run);
        }

        /** Threads that would keep a JVM from ending. */
        private List<Thread> left() {
            Thread[] all = new Thread[group.activeCount() + 10];
            int count = group.enumerate(all);
            List<Thread> found = new ArrayList<>();
            for (int each = 0; each < count; each++) {
                if (!all[each].isDaemon()) {
                    found.add(all[each]);
                }
            }
            return found;
        }
    }

    /** The standard input of the run that the reading thread belongs to. */
    private static final class Input extends InputStream {
        @Override
        public int read() throws IOException {
            return CURRENT.get().input.read();
        }

        @Override
        public int read(byte[] target, int offset, int length) throws IOException {
            return CURRENT.get().input.read(target, offset, length);
        }

        @Override
        public int available() throws IOException {
            return CURRENT.get().input.available();
        }
    }

    /** The standard output, or error output, of the run that the writing thread belongs to. */
    private static final class Output extends OutputStream {
        private final boolean errors;

        Output(boolean errors) {
            this.errors = errors;
        }

        private OutputStream target() {
            Run run = CURRENT.get();
            if (run == null) {
                return OutputStream.nullOutputStream();
            }
            return errors ? run.errors : run.output;
        }

        @Override
        public void write(int value) throws IOException {
            target().write(value);
        }

        @Override
        public void write(byte[] source, int offset, int length) throws IOException {
            target().write(source, offset, length);
        }
    }
}
