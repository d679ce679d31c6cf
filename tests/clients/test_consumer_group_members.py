"""Members of KIP-848 of several makes, alone and beside classic members, which come, go and die; and the tools.

Each record is read once: members commit what they have read before others join or go. `--against kafka4` shows that
Kafka 4.4 does so, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import pytest

from pylogbroker.blocking.admin import BlockingAdmin
from tests.clients.admin import create_topic
from tests.clients.members.base import UNIFORM
from tests.clients.members.member_process import Member, until, until_shared
from tests.clients.members.read_once import Records
from tests.peers import available as java_available
from tests.peers.tools import tool
from tests.support.brokers import Broker
from tests.support.waiting import wait_until

PARTITIONS = 6
SETTINGS = {
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.assignment.interval.ms": "0",
    "group.min.session.timeout.ms": "1000",
}
KINDS = ("confluent", "java-4", "pylogbroker")
TOPIC, GROUP = "t", "g"


class Joins(Protocol):
    def __call__(self, kind: str, assignor: str = ..., *, session_ms: int = ..., instance: str = ...) -> Member: ...


WaitFor = Callable[[Sequence[Member]], None]


@pytest.fixture
def bootstrap(new_broker: Callable[..., Broker]) -> str:
    """A broker of the test's own, whose sessions are short, with a topic."""
    broker = new_broker(SETTINGS)
    broker.start()
    create_topic(broker.bootstrap, TOPIC, PARTITIONS)
    return broker.bootstrap


@pytest.fixture
def join(bootstrap: str) -> Iterator[Joins]:
    """Starts members, of KIP-848 unless they have another assignor; all are killed in the end."""
    members: list[Member] = []

    def start(kind: str, assignor: str = UNIFORM, **options: object) -> Member:
        if kind.startswith("java") and not java_available():
            pytest.skip("Java and Maven are not installed")
        members.append(Member(kind, bootstrap, GROUP, TOPIC, assignor=assignor, **options))  # type: ignore[arg-type]
        return members[-1]

    yield start
    for member in members:
        member.process.kill()


@pytest.fixture
def wait_for(bootstrap: str) -> Iterator[WaitFor]:
    """Waits until members share all partitions, and the group is stable: no classic member has to join again."""
    with BlockingAdmin({"bootstrap.servers": bootstrap}, 30.0) as admin:

        def wait(members: Sequence[Member]) -> None:
            until_shared(members, PARTITIONS)
            wait_until(lambda: admin.groups.describe([GROUP])[GROUP].state == "Stable")
            until_shared(members, PARTITIONS)

        yield wait


@pytest.fixture
def records(bootstrap: str) -> Records:
    return Records(bootstrap, TOPIC, PARTITIONS)


@pytest.mark.parametrize("kind", KINDS)
def test_members_come_go_and_die(kind: str, join: Joins, records: Records, wait_for: WaitFor) -> None:
    first = join(kind)
    wait_for([first])
    records.go_through([first])
    second, third = join(kind), join(kind)
    wait_for([first, second, third])
    records.go_through([first, second, third])
    second.leave()
    wait_for([first, third])
    records.go_through([first, third], [second])
    first.crash()
    wait_for([third])
    records.go_through([third], [first, second])


@pytest.mark.parametrize("kind", KINDS)
def test_static_member_keeps_its_partitions(kind: str, join: Joins, records: Records, wait_for: WaitFor) -> None:
    stays, leaves = join(kind, instance="stays"), join(kind, instance="leaves")
    wait_for([stays, leaves])
    records.go_through([stays, leaves])
    before, assignments = leaves.partitions, stays.assignments
    leaves.leave()
    again = join(kind, instance="leaves")
    until([again], lambda: again.partitions == before)
    records.go_through([stays, again], [leaves])
    assert stays.assignments == assignments


def test_classic_and_new_members_share_a_group(join: Joins, records: Records, wait_for: WaitFor) -> None:
    """The group becomes one of KIP-848 and a classic one again, while members come, go and die."""
    java, python = join("java-4", "range"), join("kafka-python", "range", session_ms=6000)
    wait_for([java, python])
    records.go_through([java, python])
    new_confluent = join("confluent")
    wait_for([java, python, new_confluent])
    records.go_through([java, python, new_confluent])
    new_java = join("java-4")
    members = [java, python, new_confluent, new_java]
    wait_for(members)
    records.go_through(members)
    python.crash()
    wait_for([java, new_confluent, new_java])
    records.go_through([java, new_confluent, new_java], [python])
    java.leave()
    wait_for([new_confluent, new_java])
    records.go_through([new_confluent, new_java], [java, python])
    classic = join("confluent", "range")
    wait_for([classic, new_confluent, new_java])
    records.go_through([classic, new_confluent, new_java], [java, python])
    new_java.crash()
    wait_for([classic, new_confluent])
    records.go_through([classic, new_confluent], [java, python, new_java])
    ours = join("pylogbroker")
    wait_for([classic, new_confluent, ours])
    records.go_through([classic, new_confluent, ours], [java, python, new_java])
    new_confluent.leave()
    wait_for([classic, ours])
    records.go_through([classic, ours], [java, python, new_java, new_confluent])
    ours.leave()
    wait_for([classic])
    records.go_through([classic], [java, python, new_confluent, new_java, ours])


@pytest.mark.skipif(not java_available(), reason="needs a JDK and Maven")
def test_kafkas_tools_show_a_group(bootstrap: str, join: Joins, records: Records, wait_for: WaitFor) -> None:
    def run(*arguments: str, name: str = "kafka-consumer-groups") -> list[list[str]]:
        done = tool(name, "--bootstrap-server", bootstrap, *arguments, release="kafka-4.4")
        return [line.split() for line in done.stdout.splitlines() if line.startswith(GROUP)]

    members = [join("confluent"), join("java-4")]
    wait_for(members)
    records.go_through(members)
    wait_until(lambda: [row[-2:] for row in run("--describe", "--group", GROUP, "--state")] == [["Stable", "2"]])
    offsets = run("--describe", "--group", GROUP)
    assert {(row[1], int(row[2]), row[3], row[5]) for row in offsets} == {
        (TOPIC, partition, "5", "0") for partition in range(PARTITIONS)
    }
    listed = run("--describe", "--group", GROUP, "--members", "--verbose")
    assert sorted(int(row[4]) for row in listed) == [PARTITIONS // 2] * 2
    assert run("--list", "--state", "--type") == [[GROUP, "Consumer", "Stable"]]
    for member in members:
        member.leave()
    assert run("--list", "--state", "empty", "--type", "consumer") == [[GROUP, "Consumer", "Empty"]]
    assert run("--list", "--consumer", name="kafka-groups") == [[GROUP, "Consumer", "consumer"]]
    to_start = ("--reset-offsets", "--group", GROUP, "--topic", TOPIC, "--to-earliest", "--execute")
    assert {row[3] for row in run(*to_start)} == {"0"}
    assert {row[5] for row in run("--describe", "--group", GROUP)} == {"5"}
    run("--delete", "--group", GROUP)
    assert run("--list", "--consumer", name="kafka-groups") == []
