"""Apache Kafka's own programs, in Java, which the tests and the benchmarks hold this broker against.

They need a JDK (17 or newer) and Maven, and clients of Kafka 0.7 need Node and npm. `python -m tests.peers` fetches
every pinned jar from Maven Central, and those clients from the npm registry, into `.peers/` of the project; with them
there already it takes no time and no network.

What to use:

- `maven.jars(peer)`, `maven.classpath(peer)`: the jars of one of `maven.PEERS` (`kafka-4.4`, `kafka-3.9`,
  `kafka-2.7`, `kafka-0.8`, `clients-3.9`, `clients-4`, `companions-3.9`), fetched first if they are missing.
- `kafka.KafkaBroker`: a real Apache Kafka broker of one node, as a context manager with an `.address`.
- `zookeeper.ZooKeeper`, `zookeeper_mode.ZooKeeperModeBroker`: a ZooKeeper server, and a broker of a cluster on it.
- `old_consumer.OldConsumer`: the console consumer of Kafka 0.8, as a member of a group that ZooKeeper keeps.
- `java.Program`: a small Java client program, compiled once for each set of clients, to be run or started.
- `tools.tool(name, *arguments)`: one of Kafka's command line tools, by the name of its shell script.
- `resident.JavaProgram`: what runs these to their ends, in one JVM for the whole test run.

- `spark.java_options()`, `spark.home()`: options of the JVM and an installation with which Spark starts sooner.
- `node.run(path, *arguments)`: what a script for Node prints that uses clients of Kafka 0.7, from the npm registry.

`available()` says whether Java and Maven are there at all, for a `pytest.mark.skipif`; `node_available()` the same of
Node.
"""

import os
import shutil


def available() -> bool:
    """True if tests run that need a JDK and Maven: if these are there, and always in CI, where a lack is a failure."""
    return _available("java", "javac", "mvn")


def node_available() -> bool:
    """Return whether Node and npm are installed."""
    return _available("node", "npm")


def _available(*commands: str) -> bool:
    return "CI" in os.environ or all(map(shutil.which, commands))
