"""Topics and offsets from ZooKeeper are there when the broker starts."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition

from pylogbroker.config import BrokerConfig
from pylogbroker.offline.stopped_broker import stopped_broker
from pylogbroker.offline.zookeeper import server
from tests.legacy07.message_sets import ONE, THREE, TWO
from tests.offline.commands import fail, run, succeed
from tests.offline.kafka07 import write_partition
from tests.offline.zookeeper_registries import CHROOT, FILES
from tests.support.broker_process import BrokerProcess

IMPORT = ("migrate", "zookeeper", FILES, "--chroot", CHROOT, "--data-dir")
OFFSETS = {"offsets.topic.num.partitions": "5"}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory with the logs of my_topic: two partitions of broker 0, one of broker 3."""
    write_partition(tmp_path / "0" / "my_topic-0", [ONE, TWO, THREE])
    write_partition(tmp_path / "0" / "my_topic-1", [ONE])
    write_partition(tmp_path / "3" / "my_topic-0", [ONE, TWO])
    sources = (f"0={tmp_path}/0", f"3={tmp_path}/3")
    succeed("migrate", "kafka07", *sources, "--data-dir", tmp_path / "broker" / "data")
    return tmp_path / "broker" / "data"


@pytest.fixture
def served(data: Path) -> Iterator[BrokerProcess]:
    """A broker on what was imported."""
    succeed(*IMPORT, data)
    broker = BrokerProcess(data.parent)
    broker.start()
    try:
        yield broker
        assert broker.unexpected_errors() == []
    finally:
        broker.kill()


def committed(broker: BrokerProcess, group: str) -> dict[tuple[str, int], int]:
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    [found] = admin.list_group_offsets({group: None}).values()
    admin.close()
    return {(key.topic, key.partition): each.offset for key, each in found.items()}


def test_import_output_names_skipped_and_created_items(data: Path) -> None:
    output = succeed(*IMPORT, data, "--override", "offsets.topic.num.partitions=5")
    assert output.splitlines() == [
        "skipped /consumers/broken/offsets/my_topic/0-0: not a number: 'soon'",
        "skipped my_topic: it exists, with 3 partition(s)",
        "topic orders: a setting is not imported: leader.replication: there is no such topic setting; "
        "did you mean leader.replication.throttled.replicas?",
        "created orders, 3 partition(s), empty",
        *(f"group {group}: committed {count} offset(s)" for group, count in COUNTS),
        "group readers: skipped 1 offset(s): orders-2 holds 0 to 0, not 1042: consumers will use auto.offset.reset",
        "group readers: skipped 1 offset(s): there is no topic unknown",
    ]
    again = succeed(*IMPORT, data)
    assert "group readers: committed 0 offset(s)" in again
    assert "made" not in again


COUNTS = (("late", 1), ("multi", 2), ("new", 1), ("readers", 4))


def test_groups_go_on_where_they_were(served: BrokerProcess) -> None:
    assert committed(served, "readers") == {
        ("my_topic", 0): 26,
        ("my_topic", 1): 0,
        ("my_topic", 2): 13,
        ("orders", 0): 0,
    }
    assert committed(served, "late") == {("my_topic", 0): 26}
    assert committed(served, "multi") == {("my_topic", 0): 26, ("my_topic", 1): 0}
    consumer = KafkaConsumer(bootstrap_servers=served.bootstrap, group_id="readers", consumer_timeout_ms=120_000)
    consumer.assign([TopicPartition("my_topic", number) for number in range(3)])
    found = sorted((each.partition, each.offset, each.value) for _, each in zip(range(3), consumer, strict=False))
    consumer.close()
    assert found == [(0, 26, b"three"), (1, 0, b"one"), (2, 13, b"two")]


def test_topics_have_their_settings_and_logs(served: BrokerProcess) -> None:
    consumer = KafkaConsumer(bootstrap_servers=served.bootstrap)
    assert consumer.topics() >= {"my_topic", "orders"}
    assert consumer.partitions_for_topic("orders") == {0, 1, 2}
    consumer.close()
    served.stop()
    assert not [line for line in served.process.lines if "log directory" in line or "left alone" in line]
    with stopped_broker(BrokerConfig({"log.dirs": str(served.data_dir)})) as broker:
        assert broker.metadata.topic_settings("orders") == {"retention.ms": "60000", "cleanup.policy": "compact"}
        assert not {"going", "old_orders"} & broker.topics().keys()


def test_offsets_committed_here_are_kept(data: Path, tmp_path: Path) -> None:
    (tmp_path / "dump.json").write_text('{"/consumers/late/offsets/my_topic/0-0": "13"}')
    succeed("migrate", "zookeeper", tmp_path / "dump.json", "--data-dir", data)
    output = succeed(*IMPORT, data, "--group", "late")
    assert "group late: skipped 1 offset(s): others are committed for my_topic here already" in output
    assert "readers" not in output
    output = succeed(*IMPORT, data, "--group", "late", "--replace")
    assert "group late: committed 1 offset(s)" in output


def test_topics_of_07_without_logs(tmp_path: Path) -> None:
    output = succeed(*IMPORT, tmp_path / "data", "--topic", "my_topic")
    assert "created my_topic, 3 partition(s), empty" in output
    assert "group readers: committed 1 offset(s)" in output  # the others lie outside of the empty logs
    with stopped_broker(BrokerConfig({"log.dirs": str(tmp_path / "data")})) as broker:
        assert broker.metadata.topic_settings("my_topic")["message.format.version"] == "0.7"


def test_logs_of_another_broker(tmp_path: Path) -> None:
    write_partition(tmp_path / "old" / "t-0", [ONE])
    (tmp_path / "dump.json").write_text('{"/consumers/g/offsets/t/4-0": "13"}')
    succeed("migrate", "kafka07", tmp_path / "old", "--data-dir", tmp_path / "data")
    output = succeed("migrate", "zookeeper", tmp_path / "dump.json", "--data-dir", tmp_path / "data")
    assert "t was imported as of broker 0, the offset is of broker 4: import its logs as 4=DIRECTORY" in output


def test_a_dry_run(tmp_path: Path) -> None:
    output = succeed(*IMPORT, tmp_path / "data", "--dry-run").splitlines()
    assert "topic my_topic, 3 partition(s) of Kafka 0.7" in output
    assert "topic orders, 3 partition(s)" in output
    assert "group readers, my_topic 3-0: 13" in output
    assert output[-1] == "Nothing was written."
    assert not (tmp_path / "data").exists()


def test_a_dry_run_says_what_the_import_says(data: Path) -> None:
    options = ("--override", "offsets.topic.num.partitions=5")
    before = {file: file.read_bytes() for file in sorted(data.parent.rglob("*")) if file.is_file()}
    for again in (False, True):
        planned = succeed(*IMPORT, data, *options, "--dry-run").splitlines()
        if not again:
            after = {file: file.read_bytes() for file in sorted(data.parent.rglob("*")) if file.is_file()}
            assert after == before
        done = succeed(*IMPORT, data, *options).splitlines()
        sources = [line for line in planned if line.startswith(("topic ", "group ")) and line not in done]
        assert [line for line in planned if line not in sources] == [*done, "Nothing was written."]


def test_no_source(tmp_path: Path) -> None:
    assert "is neither an existing file nor" in fail(
        "migrate", "zookeeper", tmp_path / "none", "--data-dir", tmp_path / "data"
    )


def test_a_server_that_cannot_be_reached_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(server, "_TIMEOUT_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = f"127.0.0.1:{closed.getsockname()[1]}"
    done = run("migrate", "zookeeper", address, "--data-dir", tmp_path / "data")
    assert done.exit_code == 1
    [line] = done.output.splitlines()
    assert line.startswith(f"Error: ZooKeeper at {address} does not answer: ")
    assert line.endswith("Connection refused")
    assert caplog.messages == []  # those without a handler are written to standard error
