"""Share groups with the share consumer and the command line tools of Kafka 4.4."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.peers import available
from tests.peers.tools import start_tool, tool
from tests.support.brokers import Broker
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(not available(), reason="needs a JDK and Maven")

RECORDS = 20


def run(name: str, bootstrap: str, *arguments: str, input: str | None = None, check: bool = True) -> str:
    done = tool(name, "--bootstrap-server", bootstrap, *arguments, input=input, check=check, release="kafka-4.4")
    return done.stdout + done.stderr


def groups(bootstrap: str, *arguments: str) -> str:
    return run("kafka-share-groups", bootstrap, *arguments, check=False)


def rows(text: str, group: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line.startswith(group)]


def lags(bootstrap: str, group: str) -> set[str]:
    """Return the lags of the partitions; "-" is an unknown one."""
    return {row[4] for row in rows(groups(bootstrap, "--describe", "--group", group), group)}


@pytest.fixture
def written(bootstrap: str, topic: str, group: str) -> str:
    """A topic of two partitions, with records in the first; the group begins at its start."""
    run("kafka-topics", bootstrap, "--create", "--topic", topic, "--partitions", "2")
    begin = ("--add-config", "share.auto.offset.reset=earliest")
    run("kafka-configs", bootstrap, "--alter", "--entity-type", "groups", "--entity-name", group, *begin)
    keys = ("--property", "parse.key=true", "--property", "key.separator=:")
    run("kafka-console-producer", bootstrap, "--topic", topic, *keys, input="".join(f"k:{n}\n" for n in range(RECORDS)))
    return topic


def read(bootstrap: str, topic: str, group: str) -> set[str]:
    options = ("--topic", topic, "--group", group, "--max-messages", str(RECORDS), "--timeout-ms", "200000")
    return set(run("kafka-console-share-consumer", bootstrap, *options).split())


def test_records_are_read_and_offsets_are_reset_and_deleted(bootstrap: str, written: str, group: str) -> None:
    values = {str(number) for number in range(RECORDS)}
    assert values <= read(bootstrap, written, group)
    wait_until(lambda: "0" in lags(bootstrap, group) and lags(bootstrap, group) <= {"0", "-"})
    [state] = rows(groups(bootstrap, "--describe", "--group", group, "--state"), group)
    assert state[-2:] == ["Empty", "0"]
    reset = ("--reset-offsets", "--group", group, "--topic", written, "--to-earliest", "--execute")
    assert [row[3] for row in rows(groups(bootstrap, *reset), group)] == ["0", "0"]
    assert lags(bootstrap, group) == {"0", str(RECORDS)}
    assert values <= read(bootstrap, written, group)
    assert "Successful" in groups(bootstrap, "--delete-offsets", "--group", group, "--topic", written)
    assert "has no offset information" in groups(bootstrap, "--describe", "--group", group)
    assert "was successful" in groups(bootstrap, "--delete", "--group", group)
    assert group not in groups(bootstrap, "--list").split()


def test_members_are_described_and_keep_the_group(bootstrap: str, written: str, group: str) -> None:
    options = ("--bootstrap-server", bootstrap, "--topic", written, "--group", group)
    consumer = start_tool("kafka-console-share-consumer", *options, release="kafka-4.4")
    try:
        assert consumer.stdout is not None
        for _ in range(RECORDS):
            assert consumer.stdout.readline()
        assert [group, "Stable"] in rows(groups(bootstrap, "--list", "--state"), group)
        [member] = rows(groups(bootstrap, "--describe", "--group", group, "--members"), group)
        assert (member[3], member[4], member[5]) == ("console-share-consumer", "2", f"{written}:0,1")
        [listed] = rows(run("kafka-groups", bootstrap, "--list"), group)
        assert listed == [group, "Share", "share"]
        assert "is not EMPTY" in groups(bootstrap, "--delete", "--group", group)
        reset = ("--reset-offsets", "--group", group, "--topic", written, "--to-earliest", "--execute")
        assert "Error" in groups(bootstrap, *reset)
    finally:
        consumer.kill()
        consumer.wait()


def test_records_of_groups_are_decoded_by_kafka(
    new_broker: Callable[[dict[str, str]], Broker], topic: str, group: str, tmp_path: Path
) -> None:
    broker = new_broker({"offsets.topic.num.partitions": "1"})
    broker.start()
    run("kafka-topics", broker.bootstrap, "--create", "--topic", topic, "--partitions", "2")
    begin = ("--add-config", "share.auto.offset.reset=earliest")
    run("kafka-configs", broker.bootstrap, "--alter", "--entity-type", "groups", "--entity-name", group, *begin)
    run("kafka-console-producer", broker.bootstrap, "--topic", topic, input="1\n")
    options = ("--topic", topic, "--group", group, "--max-messages", "1", "--timeout-ms", "200000")
    run("kafka-console-share-consumer", broker.bootstrap, *options)
    groups(broker.bootstrap, "--delete-offsets", "--group", group, "--topic", topic)
    broker.stop()
    [segment] = broker.partition_dir("__consumer_offsets", 0).glob(f"*{broker.segment_suffix}")
    copy = tmp_path / segment.with_suffix(".log").name
    copy.write_bytes(segment.read_bytes())
    dumped = tool("kafka-dump-log", "--files", str(copy), "--offsets-decoder", release="kafka-4.4").stdout
    keys = {kind for kind in ("10", "11", "12", "13", "14", "15") if f'{{"type":"{kind}","data":{{"groupId"' in dumped}
    assert keys == {"10", "11", "12", "13", "14", "15"}
    for field in ("subscribedTopicNames", "metadataHash", "assignmentTimestamp", "topicPartitions", "memberEpoch"):
        assert f'"{field}":' in dumped
    for field in ("initializingTopics", "initializedTopics", "deletingTopics"):
        assert f'"{field}":[{{"topicId":' in dumped
    assert "could not be" not in dumped.lower()
