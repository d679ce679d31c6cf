"""Reading without a group while a partition has no leader: it goes on, or ends."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Self
from uuid import UUID

import pytest
from twisted.internet.task import Clock

from pylogbroker.cli.cluster_options import Connection
from pylogbroker.cli.partition_reader import PartitionReader
from pylogbroker.client.errors import TopicRecreated
from pylogbroker.errors import ErrorCode, KafkaError

KEY = ("orders", 0)
ONE, TWO = UUID(int=1), UUID(int=2)
REASON = "orders/0 has no leader now"


class _Attempts(Exception):
    """The reader has tried often enough."""


def reader(ends: dict[Any, int] | None, clock: Clock, attempts_max: int = 1000) -> PartitionReader:
    """Return a reader of a partition without a leader, on a clock that its waiting advances."""
    partition = SimpleNamespace(leader=None)
    topics = {"orders": SimpleNamespace(partitions=[partition], topic_id=ONE)}
    attempts = []

    def describe(*_: Any) -> Any:
        attempts.append(1)
        if len(attempts) > attempts_max:
            raise _Attempts
        return topics

    admin: Any = SimpleNamespace(
        cluster=SimpleNamespace(describe=lambda: SimpleNamespace(brokers=())), topics=SimpleNamespace(describe=describe)
    )
    connection = Connection({"bootstrap.servers": "127.0.0.1:1"}, 30)
    return PartitionReader(connection, admin, {KEY: 0}, ends, clock=clock.seconds, sleep=clock.advance)


def test_reading_up_to_an_end_fails_after_the_timeout(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    with pytest.raises(KafkaError, match=REASON) as caught:
        next(reader({KEY: 5}, clock).messages())
    assert caught.value.code is ErrorCode.LEADER_NOT_AVAILABLE
    assert 30 <= clock.seconds() < 31
    assert capsys.readouterr().err.count(f"{REASON}: trying again") == 1


def test_reading_for_ever_goes_on_and_says_so_once(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    with pytest.raises(_Attempts):
        next(reader(None, clock).messages())
    assert clock.seconds() > 100
    assert capsys.readouterr().err.count(f"{REASON}: trying again") == 1


def test_reading_at_the_end_sends_no_request() -> None:
    assert list(reader({KEY: 0}, Clock()).messages()) == []


class FetchedRecords(list[Any]):
    """Messages of one fetch, from some offsets on."""

    error = None

    def __init__(self, *offsets: int) -> None:
        super().__init__(SimpleNamespace(offset=each, next_offset=each + 1) for each in offsets)
        self.next_offset = offsets[-1] + 1


class FakeConsumer:
    """Has records at the offsets 0, 1 and 3 on: offset 2 is that of a transaction's marker."""

    def __init__(self, *_: object, **__: object) -> None:
        """Connect to nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Close nothing."""

    def multifetch(self, wanted: list[tuple[str, int, int]], **_: object) -> list[FetchedRecords]:
        return [FetchedRecords(*(each for each in (0, 1, 3, 4) if each >= offset)) for _, _, offset in wanted]


@pytest.mark.parametrize(("end", "expected"), [(1, [0]), (2, [0, 1]), (3, [0, 1]), (4, [0, 1, 3])])
def test_no_record_at_the_end_or_after_it(monkeypatch: pytest.MonkeyPatch, end: int, expected: list[int]) -> None:
    monkeypatch.setattr("pylogbroker.client.sync.SimpleConsumer", FakeConsumer)
    topics = {"orders": SimpleNamespace(partitions=[SimpleNamespace(leader=7)], topic_id=ONE)}
    brokers = [SimpleNamespace(broker_id=7, host="127.0.0.1", port=1)]
    admin: Any = SimpleNamespace(
        cluster=SimpleNamespace(describe=lambda: SimpleNamespace(brokers=brokers)),
        topics=SimpleNamespace(describe=lambda names: topics),
    )
    reading = PartitionReader(Connection({"bootstrap.servers": "127.0.0.1:1"}, 30), admin, {KEY: 0}, {KEY: end})
    assert [message.offset for message in reading.messages()] == expected


def recreated_in_between(ends: dict[Any, int] | None, monkeypatch: pytest.MonkeyPatch) -> PartitionReader:
    """Return the reader of a topic that is deleted after its first answer, and created again."""
    ids, answers = iter([ONE, TWO]), iter([FetchedRecords(0, 1), None, FetchedRecords(0, 1, 3)])
    asked: list[int] = []

    def multifetch(_: FakeConsumer, wanted: list[tuple[str, int, int]], **__: object) -> list[FetchedRecords]:
        asked.append(wanted[0][2])
        answer = next(answers)
        if answer is None:
            raise KafkaError(code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return [answer]

    monkeypatch.setattr("pylogbroker.client.sync.SimpleConsumer", FakeConsumer)
    monkeypatch.setattr(FakeConsumer, "multifetch", multifetch)
    brokers = [SimpleNamespace(broker_id=7, host="127.0.0.1", port=1)]
    admin: Any = SimpleNamespace(
        cluster=SimpleNamespace(describe=lambda: SimpleNamespace(brokers=brokers)),
        topics=SimpleNamespace(
            describe=lambda names: {
                "orders": SimpleNamespace(partitions=[SimpleNamespace(leader=7)], topic_id=next(ids))
            }
        ),
    )
    clock = Clock()
    connection = Connection({"bootstrap.servers": "127.0.0.1:1"}, 30)
    return PartitionReader(connection, admin, {KEY: 0}, ends, clock=clock.seconds, sleep=clock.advance)


def test_a_topic_that_is_created_again_is_read_from_its_beginning(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reading = recreated_in_between(None, monkeypatch).messages()
    assert [next(reading).offset for _ in range(5)] == [0, 1, 0, 1, 3]
    assert "topic orders was deleted and created again" in capsys.readouterr().err


def test_a_topic_that_is_created_again_has_no_former_end(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = recreated_in_between({KEY: 3}, monkeypatch).messages()
    with pytest.raises(TopicRecreated):
        list(reading)
