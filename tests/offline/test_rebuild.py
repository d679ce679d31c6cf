"""A broker whose coordination.sqlite is lost is made whole again from its log directories."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Producer
from kafka import KafkaAdminClient, KafkaConsumer

from pylogbroker.config import BrokerConfig
from pylogbroker.metadata.delta import NewTopic
from pylogbroker.offline.stopped_broker import finish, stopped_broker
from pylogbroker.storage import Origin
from tests.clients.admin import create_topic
from tests.legacy07.message_sets import ONE
from tests.offline.commands import fail, succeed
from tests.offline.kafka07 import write_partition
from tests.support.broker_process import BrokerProcess

TREE = "coordination.sqlite"
TOPIC = "orders_of-2024.x"


def nodes(data: Path) -> dict[str, bytes]:
    """All nodes of a stopped broker's tree that are not empty."""
    connection = sqlite3.connect(data / TREE)
    found = dict(connection.execute("SELECT path, data FROM node WHERE data != x''").fetchall())
    connection.close()
    return found


def write(broker: BrokerProcess, topic: str, count: int, **settings: str) -> None:
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, **{k.replace("_", "."): v for k, v in settings.items()}}
    )
    if settings.get("transactional_id"):
        producer.init_transactions()
        producer.begin_transaction()
    for number in range(count):
        producer.produce(topic, b"value %d" % number, b"key")
    if settings.get("transactional_id"):
        producer.commit_transaction()
    assert producer.flush(120) == 0


def read(broker: BrokerProcess, topic: str, count: int, **settings: object) -> list[bytes]:
    """Return so many records, and what more there is; without any, wait for three seconds."""
    wait_ms = 120_000 if count else 3000
    consumer = KafkaConsumer(topic, bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest",
                             isolation_level="read_committed", consumer_timeout_ms=wait_ms, **settings)  # fmt: skip
    found = [each.value for _, each in zip(range(count or 1), consumer, strict=False)]
    found += [each.value for batch in consumer.poll(500).values() for each in batch]
    if settings:
        consumer.commit()
    consumer.close()
    return found


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A stopped broker with topics of several kinds."""
    write_partition(tmp_path / "old" / "legacy-0", [ONE])
    succeed("migrate", "kafka07", tmp_path / "old", "--data-dir", tmp_path / "broker" / "data")
    running = BrokerProcess(tmp_path / "broker")
    running.start()
    try:
        create_topic(running.bootstrap, TOPIC, 3, {"retention.ms": "-1", "retention.bytes": "-1"})
        write(running, TOPIC, 50)
        write(running, TOPIC, 20, transactional_id="x")
        assert len(read(running, TOPIC, 70, group_id="readers")) == 70
        assert running.stop() == 0
        yield running
        assert running.unexpected_errors() == []
    finally:
        running.kill()


def test_rebuild_restores_topics_and_offsets(broker: BrokerProcess, tmp_path: Path) -> None:
    before = nodes(broker.data_dir)
    (broker.data_dir / TREE).rename(tmp_path / "lost")
    with pytest.raises(Exception, match="pylogbroker coordination rebuild"):
        broker.start()
    output = succeed("coordination", "rebuild", "--data-dir", broker.data_dir)
    assert (broker.data_dir / TREE).stat().st_mode & 0o777 == 0o600
    assert f"topic {TOPIC}: 3 partition(s), id " in output
    assert "not recovered: topic settings; retention.ms and retention.bytes are -1" in output
    after = nodes(broker.data_dir)
    producers = [json.loads(each.pop("/latest_producer_id_block")) for each in (before, after)]
    assert int(producers[1]["block_end"]) >= int(producers[0]["block_end"])
    assert before.pop("/migration/kafka07/legacy")
    assert before.pop("/feature")
    assert {path: _value(data) for path, data in after.items()} == {path: _value(data) for path, data in before.items()}
    broker.start()
    assert "/feature" in nodes(broker.data_dir)
    assert len(read(broker, TOPIC, 70)) == 70
    assert read(broker, TOPIC, 0, group_id="readers") == []  # it has read all of it
    assert read(broker, "legacy", 1) == [b"one"]
    write(broker, TOPIC, 5, transactional_id="x")
    write(broker, TOPIC, 5, enable_idempotence="true")
    assert len(read(broker, TOPIC, 80)) == 80
    assert not [line for line in broker.process.lines if "cut" in line or "left alone" in line or "no log dir" in line]


def _value(data: bytes) -> object:
    return json.loads(data) if data.startswith(b"{") else data


def test_rebuild_reports_losses(broker: BrokerProcess) -> None:
    data = broker.data_dir
    (data / TREE).unlink()
    shutil.rmtree(data / f"{TOPIC}_1")
    (data / "backup_2024").mkdir()
    stray = data / f"{TOPIC}_3"
    shutil.copytree(data / f"{TOPIC}_2", stray)
    (stray / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")
    output = succeed("coordination", "rebuild", "--data-dir", data)
    assert f"lost {TOPIC}-1: its directory is missing; the partition will be empty" in output
    assert f"skipped {stray}: it belongs to another topic with that name" in output
    assert "skipped " + str(data / "backup_2024") in output
    broker.start()
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    [found] = admin.describe_topics([TOPIC])
    admin.close()
    assert len(found["partitions"]) == 3
    assert len(list((data / "backup_2024").iterdir())) == 0


def test_the_help_says_what_is_lost() -> None:
    words = " ".join(succeed("coordination", "rebuild", "--help").split())
    for lost in ("topics' settings", "ACLs", "SCRAM", "client quotas", "delegation tokens", "broker settings"):
        assert lost in words


AUTHORIZER = "authorizer.class.name=kafka.security.authorizer.AclAuthorizer"


@pytest.mark.parametrize(
    ("options", "warns"),
    [
        ((), False),
        (("--override", "allow.everyone.if.no.acl.found=true"), False),  # there is no authorizer
        (("--override", AUTHORIZER), False),
        (("--override", AUTHORIZER, "--override", "allow.everyone.if.no.acl.found=true"), True),
    ],
)
def test_lost_access_control_is_reported(tmp_path: Path, options: Sequence[str], warns: bool) -> None:
    with stopped_broker(BrokerConfig({"log.dirs": str(tmp_path)})) as broker, broker.loaded_logs(print):
        broker.make_logs(finish(broker.controller.create_topic(NewTopic("t", 1, 1))))
    (tmp_path / TREE).unlink()
    output = succeed("coordination", "rebuild", "--data-dir", tmp_path, *options)
    assert "not recovered: ACLs: " in output
    assert "with allow.everyone.if.no.acl.found=true it lets everybody do everything" in output
    assert "not recovered: users with SCRAM credentials, client quotas and delegation tokens" in output
    assert ("WARNING: without ACLs everybody may do everything now" in output) is warns


def test_a_compacted_topic_stays_one(tmp_path: Path) -> None:
    with stopped_broker(BrokerConfig({"log.dirs": str(tmp_path)})) as broker, broker.loaded_logs(print):
        for name in ("states", "events"):
            broker.make_logs(finish(broker.controller.create_topic(NewTopic(name, 1, 1))))
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\nstates 0 100\n")
    (tmp_path / TREE).unlink()
    succeed("coordination", "rebuild", "--data-dir", tmp_path)
    configs = [json.loads(nodes(tmp_path)[f"/config/topics/{name}"])["config"] for name in ("states", "events")]
    assert [config.get("cleanup.policy") for config in configs] == ["compact", None]


def test_a_log_of_0_7_is_recognized_without_its_message_format(tmp_path: Path) -> None:
    """The log would be cut as a topic of another format."""
    topic = NewTopic("old", 1, 1, settings={"message.format.version": "0.7"})
    with stopped_broker(BrokerConfig({"log.dirs": str(tmp_path)})) as broker, broker.loaded_logs(print) as logs:
        broker.make_logs(finish(broker.controller.create_topic(topic)))
        logs["old", 0].append(ONE, broker.now_ms(), origin=Origin.NATIVE)
    (tmp_path / "old_0" / "message-format").unlink()
    (tmp_path / TREE).unlink()
    succeed("coordination", "rebuild", "--data-dir", tmp_path)
    config = json.loads(nodes(tmp_path)["/config/topics/old"])["config"]
    assert config["message.format.version"] == "0.7"


def test_the_journal_of_the_lost_file_is_not_taken_for_the_new_ones(broker: BrokerProcess) -> None:
    broker.start()
    create_topic(broker.bootstrap, "another")
    broker.kill()
    assert (broker.data_dir / f"{TREE}-wal").exists()
    (broker.data_dir / TREE).unlink()
    succeed("coordination", "rebuild", "--data-dir", broker.data_dir)
    assert (broker.data_dir / f"{TREE}-wal.lost").exists()
    assert {"/brokers/topics/another", f"/brokers/topics/{TOPIC}"} <= nodes(broker.data_dir).keys()
    broker.start()
    assert len(read(broker, TOPIC, 70)) == 70


class TestErrors:
    """Nothing is put in the place of what is there."""

    def test_the_file_is_there(self, broker: BrokerProcess) -> None:
        before = (broker.data_dir / TREE).read_bytes()
        line = fail("coordination", "rebuild", "--data-dir", broker.data_dir)
        assert f"{broker.data_dir}/{TREE} exists: only a missing file is rebuilt" in line
        assert (broker.data_dir / TREE).read_bytes() == before

    def test_the_broker_runs(self, broker: BrokerProcess, tmp_path: Path) -> None:
        broker.start()
        (broker.data_dir / TREE).rename(tmp_path / "lost")
        assert "is in use by another broker" in fail("coordination", "rebuild", "--data-dir", broker.data_dir)
        assert not (broker.data_dir / TREE).exists()

    def test_several_brokers(self, tmp_path: Path) -> None:
        with stopped_broker(BrokerConfig({"log.dirs": str(tmp_path)})) as broker, broker.loaded_logs(print):
            broker.make_logs(finish(broker.controller.create_topic(NewTopic("t", 1, 1))))
        (tmp_path / TREE).unlink()
        (tmp_path / "brokers" / "1").mkdir(parents=True)
        line = fail("coordination", "rebuild", "--data-dir", tmp_path)
        assert "has data of more brokers (1): the tree of several brokers cannot be rebuilt; restore it from" in line
        assert not (tmp_path / TREE).exists()

    def test_there_is_nothing(self, tmp_path: Path) -> None:
        assert "no partition of this broker was found" in fail("coordination", "rebuild", "--data-dir", tmp_path)
        assert not list(tmp_path.iterdir())
