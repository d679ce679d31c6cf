"""Kafka's own command line tools, as an operator calls them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.clients.adapters.kafka_python import KafkaPython
from tests.clients.admin import create_topic, eventually
from tests.clients.members.member_process import Member, until_shared
from tests.clients.model import START, Rec
from tests.peers import available, tools
from tests.support.line_process import LineProcess

pytestmark = pytest.mark.skipif(not available(), reason="needs a JDK and Maven")
Run = Callable[..., str]
STEP = 10_000


@pytest.fixture
def run(bootstrap: str) -> Run:
    """A tool's output, `run(name, *arguments, input=...)`; the broker's address is added."""

    def call(name: str, *arguments: str, text: str | None = None) -> str:
        return tools.tool(name, "--bootstrap-server", bootstrap, *arguments, input=text).stdout

    return call


def test_topics(run: Run, topic: str) -> None:
    name = ("--topic", topic)
    created = run("kafka-topics", "--create", *name, "--partitions", "3", "--config", "retention.ms=123456")
    assert f"Created topic {topic}." in created
    eventually(lambda: topic in run("kafka-topics", "--list").splitlines(), True)
    head, *partitions = run("kafka-topics", "--describe", *name).splitlines()
    assert "PartitionCount: 3" in head
    assert "ReplicationFactor: 1" in head
    assert "retention.ms=123456" in head
    assert len(partitions) == 3
    assert all(re.search(r"Leader: (\d+)\s+Replicas: \1\s+Isr: \1", line) for line in partitions)
    run("kafka-topics", "--alter", *name, "--partitions", "5")
    eventually(lambda: "PartitionCount: 5" in run("kafka-topics", "--describe", *name), True)
    run("kafka-topics", "--delete", *name)
    eventually(lambda: topic in run("kafka-topics", "--list").splitlines(), False)


def test_configs(run: Run, bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic)
    entity = ("--entity-type", "topics", "--entity-name", topic)
    run("kafka-configs", "--alter", *entity, "--add-config", "retention.ms=5000,cleanup.policy=[compact,delete]")
    described = run("kafka-configs", "--describe", *entity)
    assert "retention.ms=5000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=5000" in described
    assert "cleanup.policy=compact,delete" in described
    run("kafka-configs", "--alter", *entity, "--delete-config", "retention.ms")
    assert "retention.ms" not in run("kafka-configs", "--describe", *entity)
    everything = run("kafka-configs", "--describe", "--all", *entity)
    assert "  segment.bytes=1073741824 sensitive=false synonyms={DEFAULT_CONFIG:log.segment.bytes=1073741824}" in (
        everything.splitlines()
    )


def test_console_producer_and_consumer(run: Run, bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic)
    separated = ("--property", "parse.key=true", "--property", "key.separator=|", "--property", "parse.headers=true")
    run(
        "kafka-console-producer", "--topic", topic, *separated, "--compression-codec", "lz4",
        text="a:1,b:2\tkey|grüße\nd:4\tkey2|\nc:3\t|empty key\n",
    )  # fmt: skip
    printed = [f"print.{each}=true" for each in ("key", "headers", "offset", "partition")]
    found = run(
        "kafka-console-consumer", "--topic", topic, "--from-beginning", "--max-messages", "3",
        *(text for each in printed for text in ("--property", each)),
    )  # fmt: skip
    assert found.splitlines() == [
        "Partition:0\tOffset:0\ta:1,b:2\tkey\tgrüße",
        "Partition:0\tOffset:1\td:4\tkey2\t",
        "Partition:0\tOffset:2\tc:3\t\tempty key",
    ]


def test_offsets(run: Run, bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, 2)
    records = [Rec(b"x", partition=1, timestamp=START + number * STEP) for number in range(5)]
    KafkaPython().write(bootstrap, topic, records)

    def at(time: str) -> list[str]:
        return run("kafka-get-offsets", "--topic", topic, "--time", time).splitlines()

    assert at("latest") == [f"{topic}:0:0", f"{topic}:1:5"]
    assert at("earliest") == [f"{topic}:0:0", f"{topic}:1:0"]
    assert at("max-timestamp")[-1] == f"{topic}:1:4"
    assert at(str(START + STEP + 1))[-1] == f"{topic}:1:2"


def test_consumer_groups(run: Run, bootstrap: str, topic: str, group: str) -> None:
    create_topic(bootstrap, topic, 2)
    KafkaPython().write(bootstrap, topic, [Rec(b"x", partition=each % 2) for each in range(10)])
    of_group = ("--group", group)
    member = Member("kafka-python", bootstrap, group, topic)
    try:
        until_shared([member], 2)
        members = run("kafka-consumer-groups", "--describe", *of_group, "--members")
        assert re.search(rf"{group} .*/127\.0\.0\.1 +kafka-python\S+ +2", members)
        state = run("kafka-consumer-groups", "--describe", *of_group, "--state")
        assert re.search(rf"{group} .*127\.0\.0\.1:\d+ +\(\d+\) +range +Stable +1", state)
        member.leave()
    finally:
        member.process.kill()
    target = ("--topic", f"{topic}:0", "--execute")
    run("kafka-consumer-groups", *of_group, "--reset-offsets", "--to-offset", "2", *target)
    run("kafka-consumer-groups", *of_group, "--reset-offsets", "--to-latest", "--topic", f"{topic}:1", "--execute")
    lags = {
        tuple(line.split()[2:6])
        for line in run("kafka-consumer-groups", "--describe", *of_group).splitlines()
        if line.startswith(group)
    }
    assert lags == {("0", "2", "5", "3"), ("1", "5", "5", "0")}
    assert group in run("kafka-consumer-groups", "--list").splitlines()
    run("kafka-consumer-groups", "--delete-offsets", *of_group, "--topic", f"{topic}:1")
    assert f"{topic} 1" not in re.sub(" +", " ", run("kafka-consumer-groups", "--describe", *of_group))
    assert "was successful" in run("kafka-consumer-groups", "--delete", *of_group)
    assert group not in run("kafka-consumer-groups", "--list").splitlines()


def test_records_are_deleted(run: Run, bootstrap: str, topic: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    create_topic(bootstrap, topic)
    KafkaPython().write(bootstrap, topic, [Rec(b"x")] * 10)
    offsets = tmp_path_factory.mktemp("offsets") / "offsets.json"
    offsets.write_text(f'{{"partitions": [{{"topic": "{topic}", "partition": 0, "offset": 4}}], "version": 1}}')
    assert f"{topic}-0\tlow_watermark: 4" in run("kafka-delete-records", "--offset-json-file", str(offsets))
    assert len(KafkaPython().read(bootstrap, topic, [0])) == 6


def test_log_directories(run: Run, bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic)
    KafkaPython().write(bootstrap, topic, [Rec(b"x" * 5000)])
    described = run("kafka-log-dirs", "--describe", "--topic-list", topic)
    size = re.search(rf'"partition":"{topic}-0","size":(\d+)', described)
    assert size is not None
    assert 5000 < int(size[1]) < 5200


def test_api_versions(run: Run) -> None:
    found = run("kafka-broker-api-versions")
    assert re.search(r"Produce\(0\): 0 to 1[13]", found)
    assert re.search(r"Fetch\(1\): 0 to 1\d", found)
    assert re.search(r"Metadata\(3\): 0 to 1[23]", found)


def test_cluster_id(bootstrap: str) -> None:
    found = tools.tool("kafka-cluster", "cluster-id", "--bootstrap-server", bootstrap).stdout
    assert re.search(r"Cluster ID: \S{22}$", found.strip())


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_producer_and_consumer_performance_tools(bootstrap: str, topic: str, run: Run, compression: str) -> None:
    create_topic(bootstrap, topic)
    done = tools.tool(
        "kafka-producer-perf-test", "--topic", topic, "--num-records", "20000", "--record-size", "200",
        "--throughput", "-1", "--producer-props", f"bootstrap.servers={bootstrap}", f"compression.type={compression}",
    ).stdout  # fmt: skip
    assert "20000 records sent" in done
    report = run("kafka-consumer-perf-test", "--topic", topic, "--messages", "20000", "--hide-header")
    assert report.split(", ")[4] == "20000"


@pytest.fixture
def verifiable_consumer(bootstrap: str, topic: str, group: str) -> Iterator[LineProcess]:
    options = ("--topic", topic, "--group-id", group, "--reset-policy", "earliest", "--max-messages", "500")
    command = tools.command("kafka-verifiable-consumer", "--bootstrap-server", bootstrap, *options)
    with LineProcess(command) as process:
        yield process


def test_verifiable_producer_and_consumer(
    run: Run, bootstrap: str, topic: str, verifiable_consumer: LineProcess
) -> None:
    create_topic(bootstrap, topic)
    produced = run("kafka-verifiable-producer", "--topic", topic, "--max-messages", "500")
    assert produced.count('"name":"producer_send_success"') == 500
    assert verifiable_consumer.wait(300) == 0
    counts = re.findall(r'"name":"records_consumed","count":(\d+)', "\n".join(verifiable_consumer.lines))
    assert sum(map(int, counts)) == 500


def test_elections_of_leaders(run: Run, topic: str) -> None:
    """Elections are not needed with one broker, and do not fail."""
    run("kafka-topics", "--create", "--topic", topic)
    for kind in ("preferred", "unclean"):
        said = run("kafka-leader-election", "--election-type", kind, "--topic", topic, "--partition", "0")
        assert f"Valid replica already elected for partitions {topic}-0" in said
    assert run("kafka-leader-election", "--election-type", "preferred", "--all-topic-partitions").strip() == ""


def test_reassignments(run: Run, bootstrap: str, topic: str, tmp_path: Path) -> None:
    run("kafka-topics", "--create", "--topic", topic)
    [broker] = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=60).brokers
    plan = tmp_path / "plan.json"
    wanted = {"topic": topic, "partition": 0, "replicas": [broker]}
    plan.write_text(json.dumps({"version": 1, "partitions": [wanted]}))
    options = ("--reassignment-json-file", str(plan))
    assert f"Successfully started partition reassignment for {topic}-0" in run(
        "kafka-reassign-partitions", *options, "--execute"
    )
    said = run("kafka-reassign-partitions", *options, "--verify")
    assert f"Reassignment of partition {topic}-0 is completed." in said
    assert "No partition reassignments found." in run("kafka-reassign-partitions", "--list")


def test_features(bootstrap: str) -> None:
    done = tools.tool(
        "kafka-features", "--bootstrap-server", bootstrap, "upgrade", "--feature", "nosuch=1", check=False
    )
    assert "Could not upgrade nosuch to 1" in done.stdout
    assert done.returncode == 1
    tools.tool("kafka-features", "--bootstrap-server", bootstrap, "describe")
