"""Apache Kafka's own programs, in Java, which the tests and the benchmarks hold this broker against.

They need a JDK (17 or newer) and Maven, nothing else. `python -m tests.peers` fetches every pinned jar from
Maven Central into `.peers/` of the project; with the jars there already it takes no time and no network.

What to use:

- `maven.jars(peer)`, `maven.classpath(peer)`: the jars of one of `maven.PEERS` (`kafka-3.9`, `clients-3.9`,
  `clients-4`), fetched first if they are missing.
- `kafka.KafkaBroker`: a real Apache Kafka broker of one node, as a context manager with an `.address`.
- `java.Program`: a small Java client program, compiled once for each set of clients, to be run or started.
- `tools.tool(name, *arguments)`: one of Kafka's command line tools, by the name of its shell script.

`available()` says whether Java and Maven are there at all, for a `pytest.mark.skipif`.
"""

import os
import shutil


def available() -> bool:
    """Whether to run what needs a JDK and Maven: if they are there, and in CI always, where their lack is a failure."""
    return "CI" in os.environ or all(shutil.which(command) for command in ("java", "javac", "mvn"))
