"""`--brokers N` as a user starts it: real processes, and librdkafka as the client."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError, ConnectionClosedError, ConnectionLoss, SessionExpiredError

from tests.offline.commands import succeed
from tests.support.broker_process import START_SECONDS_MAX
from tests.support.certificates import Certificates
from tests.support.line_process import LineProcess
from tests.support.waiting import wait_until

ROOT = Path(__file__).resolve().parents[3]
PARTITIONS = 6
SECONDS_MAX = 120.0
LONG_SESSIONS = ("--override", "zookeeper.session.timeout.ms=60000")


@attrs.define
class Brokers:
    """A supervisor with its brokers; free ports, also for the tree."""

    directory: Path
    process: LineProcess | None = None

    def launch(self, *options: str, before: str = "") -> LineProcess:
        """Start them; the supervisor first runs the program `before`."""
        program = f"{before}\nfrom twisted.scripts.twistd import run; run()"
        command = [sys.executable, "-c", program, "-n", "--pidfile=", "pylogbroker", "--data-dir", str(self.directory)]
        command += ["--listener", "PLAINTEXT://127.0.0.1:0", *options]
        self.process = LineProcess(command, cwd=ROOT)
        return self.process

    def start(self, count: int, *options: str, before: str = "") -> str:
        """Return the bootstrap servers, once all serve."""
        process = self.launch("--brokers", str(count), *options, before=before)
        found = process.expect(rf"{count} brokers serve: (.*)", START_SECONDS_MAX)
        return ",".join(re.findall(r"127\.0\.0\.1:\d+", found[1]))

    def stop(self) -> None:
        assert self.process is not None
        assert self.process.terminate(SECONDS_MAX) == -signal.SIGTERM

    def pids(self) -> list[int]:
        """Return the process ids of the brokers, children of the fork server."""
        assert self.process is not None
        return [broker for server in children(self.process.pid) for broker in children(server)]


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Brokers]:
    started = Brokers(tmp_path / "data")
    yield started
    if started.process is not None:
        started.process.kill()


def create_topic(bootstrap: str, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(SECONDS_MAX)


def leaders(bootstrap: str, topic: str) -> list[int]:
    """Return the leaders of a topic's partitions, as soon as the broker that is asked knows all of them."""
    admin, found = AdminClient({"bootstrap.servers": bootstrap}), []

    def are_known() -> bool:
        partitions = admin.list_topics(topic, timeout=SECONDS_MAX).topics[topic].partitions.values()
        found[:] = [each.leader for each in partitions]
        return len(found) == PARTITIONS and min(found) >= 0

    wait_until(are_known, SECONDS_MAX, lambda: found)
    return found


def produce(bootstrap: str, topic: str, values: range) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    failed: list[object] = []
    for value in values:
        partition = value % PARTITIONS
        producer.produce(topic, str(value), partition=partition, on_delivery=lambda error, _: failed.append(error))
    assert producer.flush(SECONDS_MAX) == 0
    assert failed == [None] * len(values)


def consume(bootstrap: str, topic: str, count: int) -> list[int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    found: list[int] = []
    wait_until(lambda: _collect(consumer, found) >= count, SECONDS_MAX, lambda: len(found))
    consumer.close()
    return sorted(found)


def _collect(consumer: Consumer, found: list[int]) -> int:
    found += [int(record.value()) for record in consumer.consume(1000, 0.1) if record.error() is None]
    return len(found)


def test_a_broker_that_is_killed_comes_back_with_its_partitions(brokers: Brokers) -> None:
    bootstrap = brokers.start(2)
    create_topic(bootstrap, "t")
    assert sorted(leaders(bootstrap, "t")) == [0, 0, 0, 1, 1, 1]
    produce(bootstrap, "t", range(300))
    victim = brokers.pids()[1]
    os.kill(victim, signal.SIGKILL)
    wait_until(lambda: victim not in brokers.pids() and len(brokers.pids()) == 2)
    produce(bootstrap, "t", range(300, 600))
    assert consume(bootstrap, "t", 600) == list(range(600))
    brokers.stop()
    assert brokers.process is not None
    assert "broker 1 has ended by signal 9; it is started again" in "\n".join(brokers.process.lines)


def test_processes_have_titles_and_the_log_shows_progress(brokers: Brokers) -> None:
    brokers.start(2)
    process = brokers.process
    assert process is not None
    pids = [process.pid, *children(process.pid), *brokers.pids()]
    titles = [Path(f"/proc/{pid}/cmdline").read_text().strip("\0") for pid in pids]
    assert titles[:2] == ["pylogbroker: supervisor of 2 brokers", "pylogbroker: starts the brokers"]
    assert sorted(titles[2:]) == ["pylogbroker: broker 0", "pylogbroker: broker 1"]
    brokers.stop()
    for change in ("started", "stopped"):
        lines = re.findall(rf"broker (\d) has {change}, (\d of 2)", "\n".join(process.lines))
        assert sorted(broker for broker, _ in lines) == ["0", "1"]
        assert [count for _, count in lines] == ["1 of 2", "2 of 2"]


def test_the_data_of_one_broker_is_taken_over_and_copied(brokers: Brokers, tmp_path: Path) -> None:
    """Take the data over, even after a crash, which leaves the broker's ephemeral nodes in the tree."""
    process = brokers.launch()
    bootstrap = process.expect(r"listening on PLAINTEXT://(127\.0\.0\.1:\d+)", START_SECONDS_MAX)[1]
    create_topic(bootstrap, "old")
    produce(bootstrap, "old", range(60))
    process.kill()
    bootstrap = brokers.start(2)
    assert consume(bootstrap, "old", 60) == list(range(60))
    produce(bootstrap, "old", range(60, 120))
    create_topic(bootstrap, "new")
    assert len(set(leaders(bootstrap, "new"))) == 2
    produce(bootstrap, "new", range(60))
    succeed("backup", "create", tmp_path / "copy", "--data-dir", brokers.directory)
    brokers.stop()
    brokers.directory = tmp_path / "copy"
    bootstrap = brokers.start(2)
    assert consume(bootstrap, "old", 120) == list(range(120))
    assert consume(bootstrap, "new", 60) == list(range(60))
    brokers.stop()
    for options, wanted in ((["--brokers", "1"], "start with --brokers 2"), ([], "start with --brokers 2")):
        ended = brokers.launch(*options)
        assert ended.wait(START_SECONDS_MAX) == 1
        assert wanted in "\n".join(ended.lines)


def test_the_tree_is_open_to_others(brokers: Brokers) -> None:
    brokers.start(1, "--listener", "ZOOKEEPER://127.0.0.1:0")
    assert brokers.process is not None
    [address] = re.findall(r"others reach it at (127\.0\.0\.1:\d+)", "\n".join(brokers.process.lines))
    assert broker_ids(address, []) == ["0"]


def broker_ids(address: str, login: list[tuple[str, str]]) -> list[str]:
    client = KazooClient(address, auth_data=login, connection_retry={"max_tries": 0})
    try:
        client.start(SECONDS_MAX)
        found: list[str] = client.get_children("/brokers/ids")
    finally:
        client.stop()
        client.close()
    return found


def test_the_tree_of_the_brokers_is_closed_to_others(brokers: Brokers) -> None:
    """The password is in no argument of a process, and in no environment that it began with."""
    brokers.start(1)
    assert brokers.process is not None
    lines = "\n".join(brokers.process.lines)
    [address] = re.findall(r"their coordination tree is at (127\.0\.0\.1:\d+), for them alone", lines)
    for login in ([], [("digest", "pylogbroker:guess")], [("digest", "super:test")]):
        with pytest.raises((AuthFailedError, ConnectionClosedError, ConnectionLoss, SessionExpiredError)):
            broker_ids(address, login)
    [pid] = brokers.pids()
    started = Path(f"/proc/{pid}/cmdline").read_bytes() + Path(f"/proc/{pid}/environ").read_bytes()
    assert b"TREE_PASSWORD" not in started
    assert b"tree_password" not in started


def test_a_broker_that_cannot_start_ends_all(brokers: Brokers, tmp_path: Path) -> None:
    (tmp_path / "data" / "brokers").mkdir(parents=True)
    (tmp_path / "data" / "brokers" / "1").write_text("no directory")
    process = brokers.launch("--brokers", "2")
    assert process.wait(START_SECONDS_MAX) == 1
    assert [line for line in process.lines if line.startswith("pylogbroker: broker 1 cannot start: ")] != []


def test_a_lost_tree_is_not_replaced_by_an_empty_one(brokers: Brokers) -> None:
    partition = brokers.directory / "brokers" / "1" / "t_0"
    partition.mkdir(parents=True)
    (partition / "00000000000000000000.kafka").touch()
    before = sorted(brokers.directory.rglob("*"))
    process = brokers.launch("--brokers", "2")
    assert process.wait(START_SECONDS_MAX) == 1
    wanted = f"pylogbroker: {partition.parent} holds data, but {brokers.directory}/coordination.sqlite"
    assert [line for line in process.lines if line.startswith(wanted)] != []
    assert sorted(brokers.directory.rglob("*")) == before


def test_three_deaths_within_a_minute_end_all(brokers: Brokers) -> None:
    brokers.start(1)
    assert brokers.process is not None
    for _ in range(2):
        [pid] = brokers.pids()
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda pid=pid: brokers.pids() not in ([], [pid]))  # type: ignore[misc]
    os.kill(brokers.pids()[0], signal.SIGKILL)
    assert brokers.process.wait(START_SECONDS_MAX) == 1
    assert "broker 0 ended 3 times within a minute" in "\n".join(brokers.process.lines)


def test_brokers_outlive_the_fork_server_and_are_started_again(brokers: Brokers) -> None:
    bootstrap = brokers.start(2)
    assert brokers.process is not None
    [fork_server], victim = children(brokers.process.pid), brokers.pids()[1]
    os.kill(fork_server, signal.SIGKILL)
    brokers.process.expect(r"the process that starts brokers has ended")
    wait_until(lambda: children(brokers.process.pid) == [])
    create_topic(bootstrap, "t")
    produce(bootstrap, "t", range(60))
    os.kill(victim, signal.SIGKILL)
    brokers.process.expect("broker 1 has ended by an unknown cause")
    wait_until(lambda: len(brokers.pids()) == 1)
    produce(bootstrap, "t", range(60, 120))
    assert consume(bootstrap, "t", 120) == list(range(120))
    brokers.stop()


def test_brokers_do_not_outlive_the_supervisor(brokers: Brokers) -> None:
    brokers.start(2)
    pids = brokers.pids()
    assert brokers.process is not None
    brokers.process.kill()
    wait_until(lambda: not any(Path(f"/proc/{pid}/stat").exists() for pid in pids), SECONDS_MAX)


def test_brokers_do_not_wait_for_the_sessions_of_a_killed_supervisor(brokers: Brokers) -> None:
    brokers.start(2, *LONG_SESSIONS)
    assert brokers.process is not None
    brokers.process.kill()
    brokers.start(2)
    assert "still registered" not in "\n".join(brokers.process.lines)
    brokers.stop()


def test_a_broker_that_cannot_restart_ends_all_brokers(brokers: Brokers) -> None:
    brokers.start(2, *LONG_SESSIONS)
    assert brokers.process is not None
    pids = brokers.pids()
    brokers.process.kill()
    wait_until(lambda: not any(Path(f"/proc/{pid}/stat").exists() for pid in pids), SECONDS_MAX)
    directory = brokers.directory / "brokers" / "1"
    shutil.rmtree(directory)
    directory.write_text("no directory")
    process = brokers.launch("--brokers", "2")
    assert process.wait(START_SECONDS_MAX) == 1
    assert [line for line in process.lines if line.startswith("pylogbroker: broker 1 cannot start: ")] != []


def test_a_broker_that_hangs_is_killed(brokers: Brokers) -> None:
    brokers.start(1, before="from pylogbroker.tap.brokers import supervisor; supervisor.STOP_SECONDS_MAX = 0.1")
    os.kill(brokers.pids()[0], signal.SIGSTOP)
    brokers.stop()
    assert brokers.process is not None
    assert "broker 0 has not stopped within 0.1 s: it is killed" in "\n".join(brokers.process.lines)


@pytest.mark.parametrize("has_sasl", [False, True])
def test_brokers_replicate_over_tls(brokers: Brokers, tmp_path: Path, has_sasl: bool) -> None:
    """Each broker shows its certificate, or its password, to the others, and takes no connection without one."""
    certificates = Certificates(tmp_path / "certificates")
    if has_sasl:
        (tmp_path / "users").write_text("broker:brokers' secret\nalice:secret\n")
        settings = {**certificates.broker, "listeners": "SASL_SSL://127.0.0.1:0", "users": str(tmp_path / "users")}
        settings |= {"sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512", "super.users": "User:broker;User:alice"}
        settings["authorizer.class.name"] = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        settings["sasl.jaas.config"] = f'{module} required username="broker" password="brokers\' secret";'
        client = {"security.protocol": "sasl_ssl", "sasl.mechanism": "SCRAM-SHA-256"}
        client |= {"sasl.username": "alice", "sasl.password": "secret"}
    else:
        settings = {**certificates.broker, "ssl.client.auth": "required", "listeners": "SSL://127.0.0.1:0"}
        pem = certificates.client("alice")["ssl.keystore.location"]
        client = {"security.protocol": "ssl", "ssl.certificate.location": pem, "ssl.key.location": pem}
    bootstrap = brokers.start(2, *(f"--override={name}={text}" for name, text in settings.items()))
    first = bootstrap.partition(",")[0]  # with two, librdkafka ends one of the handshakes once it knows the brokers
    client |= {"bootstrap.servers": first, "ssl.ca.location": certificates.authority_file}
    admin, failed = AdminClient(client), list[object]()
    admin.create_topics([NewTopic("t", PARTITIONS, 2)])["t"].result(SECONDS_MAX)
    producer = Producer({**client, "acks": "all"})
    for value in range(PARTITIONS * 10):
        partition = value % PARTITIONS
        producer.produce("t", str(value), partition=partition, on_delivery=lambda error, _: failed.append(error))
    assert producer.flush(SECONDS_MAX) == 0
    assert failed == [None] * PARTITIONS * 10
    in_sync = admin.list_topics("t", timeout=SECONDS_MAX).topics["t"].partitions.values()
    assert [len(each.isrs) for each in in_sync] == [2] * PARTITIONS
    assert brokers.process is not None
    assert not [line for line in brokers.process.lines if re.search("TLS:|SASL:|#error", line)]
