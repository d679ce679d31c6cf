"""Consumer groups of every client: joining, sharing, leaving, crashing, committing; and of several makes at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import pytest

from tests.clients.adapters.confluent import Confluent
from tests.clients.adapters.kcat import available as kcat_available
from tests.clients.admin import admin_client, create_topic
from tests.clients.members.member_process import Member, until, until_shared
from tests.clients.model import Rec
from tests.peers import available as java_available

PARTITIONS = 4
#: For the one who crashes, so that the others need not wait long. A machine that stands still ends no session of it.
VICTIM_MS = 6000
#: For static members: a new process must be there before the session ends.
STATIC_MS = 60_000
KINDS = ("confluent", "kafka-python", "aiokafka", "afkak", "kcat", "java-3.9", "java-4")
COMMITTING = tuple(kind for kind in KINDS if kind != "kcat")
STATIC = ("confluent", "kafka-python", "aiokafka", "java-3.9", "java-4")
COOPERATIVE = ("confluent", "java-3.9", "java-4")


class Joins(Protocol):
    def __call__(
        self, kind: str, *, session_ms: int = ..., instance: str = ..., assignor: str = ..., part: str = ...
    ) -> Member: ...


class Produces(Protocol):
    def __call__(self, word: str, each: int, part: str = "") -> list[str]: ...


def is_installed(kind: str) -> bool:
    return kcat_available() if kind == "kcat" else java_available() if kind.startswith("java") else True


@pytest.fixture
def join(bootstrap: str, topic: str, group: str) -> Iterator[Joins]:
    """Starts members of the test's group on the test's topic, or of a part of both; all are killed in the end."""
    members: list[Member] = []

    def start(kind: str, part: str = "", **options: object) -> Member:
        if not is_installed(kind):
            pytest.skip(f"{kind} is not installed")
        members.append(Member(kind, bootstrap, group + part, topic + part, **options))  # type: ignore[arg-type]
        return members[-1]

    yield start
    for each in members:
        each.process.kill()


@pytest.fixture
def produce(bootstrap: str, topic: str) -> Produces:
    """Writes so many records to each partition, and returns their values."""
    create_topic(bootstrap, topic, PARTITIONS)

    def write(word: str, each: int, part: str = "") -> list[str]:
        records = [
            Rec(f"{word}-{partition}-{number}".encode(), partition=partition)
            for partition in range(PARTITIONS)
            for number in range(each)
        ]
        Confluent().write(bootstrap, topic + part, records)
        return sorted((record.value or b"").decode() for record in records)

    return write


def _text(metadata: str) -> str:
    return metadata.removesuffix("\0")  # confluent-kafka commits the end of the C string along with it


def values_of(*members: Member) -> list[str]:
    return sorted(value for each in members for value in each.values)


@pytest.mark.parametrize("kind", KINDS)
def test_second_member_joins_and_leaves(kind: str, join: Joins, produce: Produces) -> None:
    first = join(kind)
    until_shared([first], PARTITIONS)
    second = join(kind)
    until_shared([first, second], PARTITIONS)
    both = produce("both", 5)
    until([first, second], lambda: len(values_of(first, second)) >= len(both))
    assert values_of(first, second) == both
    first.commit()
    second.commit()
    second.leave()
    until_shared([first], PARTITIONS)
    alone = produce("alone", 2)
    until([first], lambda: set(alone) <= set(first.values))
    assert values_of(first, second) == sorted(both + alone)


def test_crashed_members_partitions_are_taken_over(bootstrap: str, topic: str, join: Joins, produce: Produces) -> None:
    """Each kind has a group and a topic: the sessions of all victims end in the same seconds."""
    kinds = list(filter(is_installed, COMMITTING))
    for kind in kinds:
        create_topic(bootstrap, topic + kind, PARTITIONS)
    pairs = {kind: (join(kind, part=kind), join(kind, part=kind, session_ms=VICTIM_MS)) for kind in kinds}
    written: dict[str, list[str]] = {}
    for kind, (survivor, victim) in pairs.items():
        until_shared([survivor, victim], PARTITIONS)
        written[kind] = produce("before", 3, kind)
        until([survivor, victim], lambda pair=pairs[kind], kind=kind: len(values_of(*pair)) >= len(written[kind]))
        survivor.commit()
        victim.crash()
    for kind, (survivor, _) in pairs.items():
        until_shared([survivor], PARTITIONS)
        until([survivor], lambda survivor=survivor, kind=kind: set(written[kind]) == set(survivor.values))
        # what the victim read uncommitted is read again, and only that
        assert values_of(survivor) == written[kind], kind


@pytest.mark.parametrize("kind", COMMITTING)
def test_commit_and_resume(kind: str, bootstrap: str, topic: str, group: str, join: Joins, produce: Produces) -> None:
    before = produce("before", 3)
    first = join(kind)
    until([first], lambda: len(first.records) >= len(before))
    first.commit("bemerkung-1")
    first.leave()
    with admin_client(bootstrap) as admin:
        committed = admin.list_group_offsets(group)[group]
    # afkak commits the last offset that it has read, the others the next one to read
    assert {(key.partition, value.offset, _text(value.metadata)) for key, value in committed.items()} == {
        (partition, 3 - (kind == "afkak"), "bemerkung-1") for partition in range(PARTITIONS)
    }
    after = produce("after", 2)
    second = join(kind)
    until([second], lambda: len(second.records) >= len(after))
    assert second.values == after


@pytest.mark.parametrize("kind", STATIC)
def test_static_member_comes_back_without_a_rebalance(kind: str, join: Joins, produce: Produces) -> None:
    produce("x", 1)
    stays, returns = (join(kind, instance=each, session_ms=STATIC_MS) for each in ("stays", "returns"))
    until_shared([stays, returns], PARTITIONS)
    held, assignments = returns.partitions, stays.assignments
    returns.crash()
    again = join(kind, instance="returns", session_ms=STATIC_MS)
    until([again], lambda: again.assignments > 0)
    assert again.partitions == held
    produce("y", 1)
    until([stays], lambda: sum(value.startswith("y") for value in stays.values) >= len(stays.partitions))
    assert stays.assignments == assignments


def test_cooperative_members_share_and_take_over(bootstrap: str, topic: str, join: Joins, produce: Produces) -> None:
    kinds = list(filter(is_installed, COOPERATIVE))
    for kind in kinds:
        create_topic(bootstrap, topic + kind, PARTITIONS)
    firsts = {kind: join(kind, part=kind, assignor="cooperative-sticky") for kind in kinds}
    pairs: dict[str, tuple[Member, Member]] = {}
    for kind, first in firsts.items():
        until_shared([first], PARTITIONS)
        pairs[kind] = first, join(kind, part=kind, assignor="cooperative-sticky", session_ms=VICTIM_MS)
    written: dict[str, list[str]] = {}
    for kind, pair in pairs.items():
        until_shared(pair, PARTITIONS)
        written[kind] = produce("shared", 2, kind)
        until(pair, lambda pair=pair, kind=kind: len(values_of(*pair)) >= len(written[kind]))
        assert values_of(*pair) == written[kind], kind
        pair[1].crash()
    for kind, first in firsts.items():
        until_shared([first], PARTITIONS)
        until([first], lambda first=first, kind=kind: set(first.values) == set(written[kind]))


def test_members_of_all_makes_share_one_group(join: Joins, produce: Produces) -> None:
    """They join all at once, one crashes, one leaves, and the rest goes on."""
    members = [join(kind, session_ms=VICTIM_MS if kind == "aiokafka" else 10_000) for kind in STATIC[:4]]
    confluent, python, crashes, java = members
    until_shared(members, PARTITIONS)
    written = produce("all", 3)
    until(members, lambda: len(values_of(*members)) >= len(written))
    assert values_of(*members) == written
    for each in members:
        each.commit()
    crashes.crash()
    java.leave()
    until_shared([confluent, python], PARTITIONS)
    more = produce("rest", 2)
    until([confluent, python], lambda: set(more) <= set(values_of(confluent, python)))
    assert values_of(*members) == sorted(written + more)
