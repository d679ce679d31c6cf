"""Brokers in threads of the test's own process."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer
from twisted.internet.defer import Deferred

from pylogbroker.client.sync.background import TimedOut, WrongThread
from pylogbroker.errors import ConfigError, KafkaError, StartupError
from pylogbroker.testing import Broker
from pylogbroker.testing.reactor_thread import ReactorThread
from pylogbroker.testing.schema_registry import BrokerRegistry


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"num.partitions": 2}, auto_create_topics_enable=True) as broker:
        yield broker


def open_files() -> set[str]:
    found = set()
    for number in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):
            found.add(f"{number} {os.readlink(f'/proc/self/fd/{number}')}")
    return found


def is_listening(port: int) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


def test_a_client_of_another_make(broker: Broker) -> None:
    topic = broker.create_topic("kafka-python", 1)
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    producer.send(topic, b"one").get(timeout=120)
    producer.close()
    assert broker.produce(topic, "two", key=b"k") == [1]
    consumer = KafkaConsumer(
        topic, bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest", group_id="readers"
    )
    values = [next(consumer).value for _ in range(2)]
    assert (values, broker.groups) == ([b"one", b"two"], ["readers"])
    consumer.close()
    broker.delete_group("readers", "missing")
    assert broker.groups == []


def test_records_by_partition(broker: Broker) -> None:
    broker.create_topic("records", 3, retention_ms=-1)
    assert broker.records("records") == []
    for partition, value in ((2, b"c"), (0, "a"), (2, None)):
        broker.produce("records", value, partition=partition, timestamp_ms=1000, headers=[("h", b"1")])
    found = [(each.partition, each.offset, each.value, each.timestamp) for each in broker.records("records")]
    assert found == [(0, 0, b"a", 1000), (2, 0, b"c", 1000), (2, 1, None, 1000)]


def test_records_after_connections_were_reset(broker: Broker) -> None:
    broker.create_topic("reset", 1)
    for number in range(3):
        broker.produce("reset", str(number))
        assert [int(each.value) for each in broker.records("reset")] == list(range(number + 1))
        broker.faults.network.reset()


def test_brokers_of_a_fault_are_not_asked_after_it(broker: Broker) -> None:
    broker.create_topic("moved")
    broker.faults.cluster.move_leader("moved", 0, to=7)
    assert broker.groups == []
    broker.faults.clear()
    assert "moved" in broker.inventory().topics


def test_texts_for_keys_and_values(broker: Broker) -> None:
    topic = broker.create_topic("texts", 1)
    broker.produce(topic, "tea", b"milk", None, key="alice")
    assert [(message.key, message.value) for message in broker.records(topic)] == [
        (b"alice", b"tea"),
        (b"alice", b"milk"),
        (b"alice", None),
    ]
    for arguments, start in (
        ({"topic": topic, "key": 5}, "key: 5"),
        ({"topic": b"texts"}, "topic: b'texts'"),
    ):
        with pytest.raises(ConfigError, match=start):
            broker.produce(**arguments)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"values: \['tea'\] is not accepted; expected bytes, a text or None"):
        broker.produce(topic, ["tea"])  # type: ignore[arg-type]


def test_the_address_before_the_start() -> None:
    with pytest.raises(RuntimeError, match=r"start\(\) gives it one"):
        _ = Broker().bootstrap


def test_topics_with_settings(broker: Broker) -> None:
    broker.delete_topic(*broker.topics)
    broker.create_topic("by-default")
    broker.create_topic("compacted", 3, cleanup_policy="compact")
    assert broker.topics == {"by-default": 2, "compacted": 3}
    with pytest.raises(KafkaError, match="exists"):
        broker.create_topic("compacted")
    with pytest.raises(KafkaError, match=r"retention\.ms"):
        broker.create_topic("wrong", retention_ms="soon")
    broker.delete_topic("compacted", "missing")
    assert broker.topics == {"by-default": 2}


def test_brokers_leave_no_threads_files_or_ports() -> None:
    with Broker():  # whatever Python and Twisted open once
        pass
    gc.collect()  # closes files of other tests
    threads, files = threading.active_count(), open_files()
    with ExitStack() as stack:
        first, second = (stack.enter_context(Broker()) for _ in range(2))
        assert first.port != second.port
        first.create_topic("of-the-first")
        assert second.topics == {}
        second.produce(second.create_topic("of-the-second"), "value")
        directories = {Path(name.split()[1]).parent for name in open_files() - files if name.endswith("/.lock")}
        assert len(directories) == 2
        assert is_listening(first.port)
    assert [each for each in directories if each.exists()] == []
    assert threading.active_count() <= threads
    assert open_files() - files == set()  # those of other tests may be closed meanwhile
    assert not is_listening(first.port)
    assert not is_listening(second.port)


def test_a_second_start(tmp_path: Path) -> None:
    broker = Broker(data_dir=str(tmp_path / "kept"))
    for expected in ([], [b"value"]):
        with broker:
            topic = "kept" if expected else broker.create_topic("kept")
            assert [each.value for each in broker.records(topic)] == expected
            broker.produce(topic, "value")
            with pytest.raises(RuntimeError, match="runs already"):
                broker.start()
    with pytest.raises(RuntimeError, match="does not run"):
        broker.create_topic("late")
    broker.stop()


def test_a_failed_start(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    threads, files = threading.active_count(), open_files()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = "{}:{}".format(*taken.getsockname())
        with pytest.raises(StartupError, match=f"{address}.*in use"), Broker(listeners=f"PLAINTEXT://{address}"):
            pass
    (tmp_path / "file").write_text("")
    with pytest.raises(StartupError, match="Not a directory"), Broker(data_dir=str(tmp_path / "file")):
        pass
    assert threading.active_count() <= threads
    assert open_files() - files == set()  # those of other tests may be closed meanwhile
    assert capfd.readouterr().err == ""


def test_a_start_after_one_that_failed_late(monkeypatch: pytest.MonkeyPatch) -> None:
    async def start(service: BrokerRegistry) -> None:
        raise StartupError("no registry")

    broker = Broker(schema_registry=True)
    with monkeypatch.context() as patch:
        patch.setattr(BrokerRegistry, "start", start)
        with pytest.raises(StartupError, match="no registry"):
            broker.start()
    with broker:
        assert broker.topics == {"_schemas": 1}


def test_a_setting_that_does_not_exist() -> None:
    with pytest.raises(ConfigError, match=r"num\.partitionss: there is no such broker setting; did you mean num\.part"):
        Broker(num_partitionss=3)
    Broker(sasl_kerberos_service_name="kafka")  # it has no effect here


def test_a_cluster() -> None:
    with Broker(brokers=3, min_insync_replicas=2) as cluster:
        assert len(cluster.bootstrap.split(",")) == 3
        cluster.create_topic("replicated", 3, replication_factor=3)
        cluster.produce("replicated", *"abc", partition=1)
        assert [each.value for each in cluster.records("replicated")] == [b"a", b"b", b"c"]
        cluster.clock.advance("1h")
        cluster.produce("replicated", "d", partition=1)
        cluster.delete_topic("replicated")
        assert cluster.topics == {}


def test_in_asyncio() -> None:
    async def use() -> list[bytes]:
        async with Broker() as broker:
            broker.produce("asyncio", "value")
            return [each.value for each in broker.records("asyncio")]

    assert asyncio.run(use()) == [b"value"]


def test_the_global_reactor_is_not_installed() -> None:
    program = (
        "import sys; from pylogbroker.testing import Broker\n"
        "with Broker(brokers=2) as broker: broker.produce('topic', 'value'); broker.records('topic')\n"
        "sys.exit('twisted.internet.reactor' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=600).returncode == 0


def test_calls_to_the_thread() -> None:
    thread = ReactorThread()
    thread.start()

    async def call_itself() -> None:
        thread.call(call_itself, "inner call")

    cancelled = threading.Event()
    try:
        with pytest.raises(WrongThread, match="inner call"):
            thread.call(call_itself, "outer call")
        waiting: Deferred[None] = Deferred(lambda _: cancelled.set())
        with pytest.raises(TimedOut, match=r"endless call.*0\.01 s"):
            thread.call(lambda: waiting, "endless call", 0.01)
        assert cancelled.wait(120)
    finally:
        thread.stop()
