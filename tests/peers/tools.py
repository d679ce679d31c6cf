"""Kafka's own command line tools of release 3.9, called by the names of its shell scripts.

    done = tool("kafka-topics", "--bootstrap-server", address, "--create", "--topic", "t")
    done = tool("kafka-console-producer", "--bootstrap-server", address, "--topic", "t", input="one\\ntwo\\n")
    process = start_tool("kafka-console-consumer", "--bootstrap-server", address, "--topic", "t")

Many tools report a failure on the standard output and end with 0: check the
output. `TOOLS` names them all; a class name with dots in it is run as it is.
"""

import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from tests.peers.java import write_library
from tests.peers.maven import PeerError, jars
from tests.peers.resident import JavaProgram

TOOLS: Mapping[str, str] = {
    "kafka-acls": "kafka.admin.AclCommand",
    "kafka-broker-api-versions": "kafka.admin.BrokerApiVersionsCommand",
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
#: Their last work is done by a shutdown hook of the JVM.
ALONE = {"kafka-verifiable-consumer", "kafka-verifiable-producer"}
LOGGING = """\
log4j.rootLogger=WARN, stderr
log4j.appender.stderr=org.apache.log4j.ConsoleAppender
log4j.appender.stderr.Target=System.err
log4j.appender.stderr.layout=org.apache.log4j.PatternLayout
log4j.appender.stderr.layout.ConversionPattern=%p %m (%c)%n
"""


def tool(
    name: str,
    *arguments: str,
    input: str | None = None,
    timeout: float = 300.0,
    check: bool = True,
    alone: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run a tool to its end; with `check`, an exit status other than 0 is an error that shows the output.

    Tools that log in by SCRAM with extensions must run `alone`, in a JVM of their own. In a JVM that has used SCRAM
    before, the mechanism may be that of another class loader. It passes over extensions of this one.
    """
    done = _program(name).run(arguments, input, timeout, alone=alone or name in ALONE)
    if check and done.returncode:
        raise PeerError(f"{name} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done


def start_tool(name: str, *arguments: str) -> subprocess.Popen[str]:
    """Start a tool with pipes for its input, output and errors; the caller ends it."""
    pipe = subprocess.PIPE
    return subprocess.Popen(command(name, *arguments), stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def command(name: str, *arguments: str) -> list[str]:
    """Return the whole command that runs a tool in a JVM of its own."""
    return _program(name).command(arguments)


def _program(name: str) -> JavaProgram:
    if name not in TOOLS and "." not in name:
        raise PeerError(f"no tool {name!r}: one of {', '.join(TOOLS)}")
    return JavaProgram(TOOLS.get(name, name), (_logging(), *jars("kafka-3.9")))


@cache
def _logging() -> Path:
    return write_library("logging-tools", "log4j.properties", LOGGING)
