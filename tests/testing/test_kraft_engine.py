"""Test brokers that a controller of Apache Kafka joins."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from pylogbroker.blocking.connection import dial
from pylogbroker.errors import ConfigError, ErrorCode, StartupError
from pylogbroker.rpc.settings import Address, ConnectionSettings
from pylogbroker.testing import Broker, kafka_cluster
from pylogbroker.testing.controller_process import ControllerProcess
from pylogbroker.wire import Request
from pylogbroker.wire.messages.describe_quorum import DescribeQuorumRequest, QuorumPartition, QuorumTopic
from pylogbroker.wire.messages.unregister_broker import UnregisterBrokerRequest
from tests.peers.maven import jars
from tests.peers.processes import free_ports
from tests.support.waiting import wait_until

pytest_plugins = ["pytester"]


def installation(directory: Path, release: str) -> Path:
    """Return a directory like that of an unpacked release."""
    home = directory / release
    home.mkdir()
    (home / "libs").symlink_to(jars(release)[0].parent)
    return home


def values(broker: Broker, topic: str) -> list[bytes | None]:
    return sorted(record.value or b"" for record in broker.records(topic))


def java_processes(directory: str) -> list[str]:
    """Return the command lines of Java below a directory."""
    texts = []
    for number in filter(str.isdigit, os.listdir("/proc")):
        try:
            text = Path("/proc", number, "cmdline").read_text()
        except OSError:
            continue
        if "kafka.Kafka" in text and not text.startswith("/bin/sh") and directory in text:
            texts.append(text)
    return texts


@pytest.mark.parametrize("release", ["kafka-3.9", "kafka-4.4"])
@pytest.mark.kafka
@pytest.mark.process
def test_three_brokers_on_a_controller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: str) -> None:
    monkeypatch.setenv("KAFKA_HOME", str(installation(tmp_path, release)))
    data = tmp_path / "data"
    with kafka_cluster(3, engine="kraft", data_dir=data, num_partitions=2) as cluster:
        assert len(java_processes(str(data))) == 1
        cluster.create_topic("orders", 2, replication_factor=3, min_insync_replicas=2)
        settings = {"bootstrap.servers": cluster.bootstrap, "transactional.id": "t", "log_level": 0}
        producer = Producer(settings)
        producer.init_transactions(60)
        fault = cluster.faults.add("Produce", "NOT_LEADER_OR_FOLLOWER", times=1)
        producer.begin_transaction()
        producer.produce("orders", b"tea")
        producer.commit_transaction(60)
        assert fault.hits == 1
        cluster.down(1)
        cluster.produce("orders", "milk")
        cluster.up(1)
        consumer = Consumer(
            {"bootstrap.servers": cluster.bootstrap, "group.id": "g", "auto.offset.reset": "earliest", "log_level": 0}
        )
        consumer.subscribe(["orders"])
        messages: list[bytes] = []

        def read() -> bool:
            message = consumer.poll(1)
            if message is not None and message.error() is None:
                messages.append(message.value())
            return len(messages) == 2

        wait_until(read, 60, lambda: messages)
        consumer.close()
        assert cluster.groups == ["g"]
    assert java_processes(str(data)) == []
    with kafka_cluster(3, engine="kraft", data_dir=data) as again:
        assert values(again, "orders") == [b"milk", b"tea"]
        assert again.topics == {"orders": 2}


@pytest.mark.kafka
@pytest.mark.process
def test_access_rules_hold_at_the_controller(tmp_path: Path) -> None:
    home = installation(tmp_path, "kafka-4.4")
    with Broker(engine="kraft", kafka_home=home, users={"alice": "secret"}, acls=["alice read topic:orders"]) as broker:
        broker.create_topic("orders")
        broker.produce("orders", "tea")
        consumer = Consumer({**broker.client_settings("alice"), "group.id": "g"})
        assert list(consumer.list_topics(timeout=60).topics) == ["orders"]
        consumer.close()
        producer = Producer(broker.client_settings("alice"))
        errors: list[str] = []
        producer.produce("orders", b"milk", on_delivery=lambda error, message: errors.append(error.name()))
        producer.flush(60)
        del producer
    assert errors == ["TOPIC_AUTHORIZATION_FAILED"]


@pytest.fixture
def running(tmp_path: Path) -> Iterator[ControllerProcess]:
    with ControllerProcess.started(installation(tmp_path, "kafka-4.4"), tmp_path, {}) as process:
        yield process


def ask(address: str, request: Request) -> Any:
    host, _, port = address.rpartition(":")
    connection = dial(Address(host, int(port)), ConnectionSettings())
    try:
        return connection.ask(request)
    finally:
        connection.close()


@pytest.mark.kafka
@pytest.mark.process
def test_brokers_join_a_controller_that_runs(running: ControllerProcess, tmp_path: Path) -> None:
    with Broker(engine="kraft", controller_quorum_bootstrap_servers=running.address) as broker:
        broker.create_topic("orders")
        broker.produce("orders", "tea")
        quorum = ask(running.address, DescribeQuorumRequest([QuorumTopic("__cluster_metadata", [QuorumPartition(0)])]))
        assert [observer.replica_id for observer in quorum.topics[0].partitions[0].observers] == broker.ids
        first = broker.ids
    with Broker(engine="kraft", brokers=2, controller_quorum_bootstrap_servers=running.address) as others:
        assert not set(first) & set(others.ids)
        admin = AdminClient({"bootstrap.servers": others.bootstrap, "log_level": 0})
        assert sorted(admin.list_topics(timeout=60).brokers) == sorted(others.ids)
    code = ask(running.address, UnregisterBrokerRequest(first[0])).error_code
    assert code == ErrorCode.BROKER_ID_NOT_REGISTERED


@pytest.mark.kafka
@pytest.mark.process
def test_the_plugin_starts_it_once_a_run(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home = installation(tmp_path, "kafka-4.4")
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("number", [1, 2])
        def test_records(kafka, kafka_topic, number):
            kafka.produce(kafka_topic, "value")
            assert [record.value for record in kafka.records(kafka_topic)] == [b"value"]
            assert kafka.broker.ids == [0, 1]
            assert kafka.broker.faults.broker.config.process_roles == ("broker",)
        """
    )
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # the same module may be installed
    options = ("--kafka-engine", "kraft", "--kafka-home", str(home), "--kafka-brokers", "2")
    result = pytester.runpytest_subprocess("-p", "pylogbroker.testing.pytest_plugin", *options, timeout=240)
    result.assert_outcomes(passed=2)


# without Java


def test_a_controller_has_to_come_from_somewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAFKA_HOME", raising=False)
    with pytest.raises(ConfigError) as raised:
        kafka_cluster(3, engine="kraft").start()
    text = str(raised.value)
    assert "\n" not in text
    assert "unpack a release of https://kafka.apache.org/downloads" in text
    assert "kafka_home, --kafka-home or KAFKA_HOME" in text


def test_a_directory_without_kafka_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"kafka_home: .* expected the directory of an unpacked release, with libs/"):
        kafka_cluster(1, engine="kraft", kafka_home=tmp_path).start()


def test_an_engine_that_does_not_exist_is_rejected() -> None:
    with pytest.raises(ConfigError, match="engine: 'zookeeper' is not accepted; expected one of own, kraft"):
        Broker(engine="zookeeper")


def java_home(directory: Path, script: str) -> str:
    java = directory / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    return str(java.parent.parent)


def fake_installation(directory: Path) -> Path:
    (directory / "libs").mkdir(parents=True)
    (directory / "libs" / "kafka-server-common-4.4.0.jar").touch()
    return directory


@pytest.mark.process
@pytest.mark.parametrize(
    ("script", "text"),
    [
        ("echo no memory; exit 1", "Apache Kafka's controller cannot be formatted: no memory"),
        (
            'case "$*" in *StorageTool*) exit 0;; esac; echo port in use; exit 1',
            "Apache Kafka's controller ended at its start: port in use",
        ),
    ],
)
def test_the_controllers_own_words_are_in_the_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, text: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", java_home(tmp_path, script))
    with pytest.raises(StartupError, match=text):
        kafka_cluster(1, engine="kraft", kafka_home=fake_installation(tmp_path / "kafka")).start()


def test_java_is_named_if_it_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ConfigError, match="Java; install it, or correct JAVA_HOME"):
        kafka_cluster(1, engine="kraft", kafka_home=fake_installation(tmp_path / "kafka")).start()


def test_a_controller_that_does_not_run_is_named() -> None:
    [port] = free_ports(1)
    with pytest.raises(StartupError, match=rf"no controller .* can be used: 127\.0\.0\.1:{port}"):
        Broker(engine="kraft", controller_quorum_bootstrap_servers=f"127.0.0.1:{port}").start()


def test_the_plugin_reports_it_in_one_line(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAFKA_HOME", raising=False)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # the same module may be installed
    pytester.makepyfile("def test_it(kafka): pass")
    result = pytester.runpytest_inprocess("-p", "pylogbroker.testing.pytest_plugin", "--kafka-engine", "kraft")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["engine: kraft needs a controller of Apache Kafka: unpack a release of *"])
    assert "Traceback" not in result.stdout.str()
