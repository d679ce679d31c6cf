"""Kafka's own command line tools of releases 3.9 and 4.4, called by the names of its shell scripts.

    done = tool("kafka-topics", "--bootstrap-server", address, "--create", "--topic", "t")
    done = tool("kafka-console-producer", "--bootstrap-server", address, "--topic", "t", input="one\\ntwo\\n")
    process = start_tool("kafka-console-consumer", "--bootstrap-server", address, "--topic", "t")
    done = tool("kafka-share-groups", "--bootstrap-server", address, "--list", release="kafka-4.4")

Many tools report a failure on the standard output and end with 0: check the
output. `TOOLS` names those of each release; a class name with dots in it is run as it is.
"""

import re
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from tests.peers.java import write_library
from tests.peers.maven import PeerError, jars
from tests.peers.resident import JavaProgram

_TOOLS_OF_3_9: Mapping[str, str] = {
    "kafka-acls": "kafka.admin.AclCommand",
    "kafka-broker-api-versions": "kafka.admin.BrokerApiVersionsCommand",
    "kafka-client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
    "kafka-cluster": "kafka.tools.ClusterTool",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer": "kafka.tools.ConsoleProducer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "kafka-delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-dump-log": "kafka.tools.DumpLogSegments",
    "kafka-e2e-latency": "org.apache.kafka.tools.EndToEndLatency",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-replica-verification": "org.apache.kafka.tools.ReplicaVerificationTool",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
    "kafka-verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
}
_TOOLS_OF_4_4: Mapping[str, str] = {
    **{name: re.sub(r"^kafka\.(admin|tools)\.", "org.apache.kafka.tools.", of) for name, of in _TOOLS_OF_3_9.items()},
    "kafka-console-share-consumer": "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
    "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
    "kafka-share-consumer-perf-test": "org.apache.kafka.tools.ShareConsumerPerformance",
    "kafka-share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "kafka-streams-groups": "org.apache.kafka.tools.streams.StreamsGroupCommand",
    "kafka-verifiable-share-consumer": "org.apache.kafka.tools.VerifiableShareConsumer",
}
#: Maven Central has no metadata shell of 4.4, and those of earlier releases do not know its records.
_SHELL: Mapping[str, str] = {"kafka-metadata-shell": "org.apache.kafka.shell.MetadataShell"}
TOOLS: Mapping[str, Mapping[str, str]] = {"kafka-3.9": {**_TOOLS_OF_3_9, **_SHELL}, "kafka-4.4": _TOOLS_OF_4_4}
#: Jars that a tool has besides those of its release.
_MORE_JARS: Mapping[str, str] = {"kafka-metadata-shell": "shell-3.9"}
#: Their last work is done by a shutdown hook of the JVM; the metadata shell keeps its lock of a directory.
ALONE = {
    "kafka-metadata-shell",
    "kafka-verifiable-consumer",
    "kafka-verifiable-producer",
    "kafka-verifiable-share-consumer",
}
LOGGING = """\
log4j.rootLogger=WARN, stderr
log4j.appender.stderr=org.apache.log4j.ConsoleAppender
log4j.appender.stderr.Target=System.err
log4j.appender.stderr.layout=org.apache.log4j.PatternLayout
log4j.appender.stderr.layout.ConversionPattern=%p %m (%c)%n
"""
LOGGING_IN_4 = """\
status=error
rootLogger.level=warn
rootLogger.appenderRef.stderr.ref=stderr
appender.stderr.type=Console
appender.stderr.name=stderr
appender.stderr.target=SYSTEM_ERR
appender.stderr.layout.type=PatternLayout
appender.stderr.layout.pattern=%p %m (%c)%n
"""


def tool(
    name: str,
    *arguments: str,
    input: str | None = None,
    timeout: float = 300.0,
    check: bool = True,
    alone: bool = False,
    release: str = "kafka-3.9",
) -> subprocess.CompletedProcess[str]:
    """Run a tool to its end; with `check`, an exit status other than 0 is an error that shows the output.

    Tools that log in by SCRAM with extensions must run `alone`, in a JVM of their own. In a JVM that has used SCRAM
    before, the mechanism may be that of another class loader. It passes over extensions of this one.
    """
    done = _program(name, release).run(arguments, input, timeout, alone=alone or name in ALONE)
    if check and done.returncode:
        raise PeerError(f"{name} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done


def start_tool(name: str, *arguments: str, release: str = "kafka-3.9") -> subprocess.Popen[str]:
    """Start a tool with pipes for its input, output and errors; the caller ends it."""
    pipe = subprocess.PIPE
    return subprocess.Popen(command(name, *arguments, release=release), stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def command(name: str, *arguments: str, release: str = "kafka-3.9") -> list[str]:
    """Return the whole command that runs a tool in a JVM of its own."""
    return _program(name, release).command(arguments)


def _program(name: str, release: str) -> JavaProgram:
    tools = TOOLS[release]
    if name not in tools and "." not in name:
        raise PeerError(f"no tool {name!r} in {release}: one of {', '.join(tools)}")
    return JavaProgram(tools.get(name, name), (_logging(release), *tool_jars(name, release)))


def tool_jars(name: str, release: str) -> tuple[Path, ...]:
    more = _MORE_JARS.get(name)
    return (*(jars(more) if more else ()), *jars(release))


@cache
def _logging(release: str) -> Path:
    if release == "kafka-4.4":
        return write_library("logging-tools-4", "log4j2.properties", LOGGING_IN_4)
    return write_library("logging-tools", "log4j.properties", LOGGING)
