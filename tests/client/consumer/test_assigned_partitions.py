"""Assigned partitions: seek, pause, revocation and end. Without a broker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from twisted.internet.defer import ensureDeferred

from pylogbroker.client.consumer.assigned_partitions import AssignedPartitions, NoListener
from pylogbroker.client.consumer.fetch_buffer import Chunk, FetchBuffer
from pylogbroker.client.consumer.streams import Stream
from pylogbroker.client.errors import TopicRecreated
from pylogbroker.errors import ErrorCode
from pylogbroker.interfaces import TopicPartition
from pylogbroker.wire import NO_ID
from tests.client.test_fetcher import Harness as Fetching
from tests.client.test_streams import messages

KEY = ("t", 0)


class Harness:
    """A partition that is read from the beginning, and what is committed of it."""

    def __init__(self) -> None:
        self.fetching = Fetching(t=1)
        self.clock = self.fetching.clock
        self.stream = Stream(self.clock)  # type: ignore[arg-type]
        self.commits: list[dict[TopicPartition, int]] = []
        self.kept: dict[TopicPartition, int] = {}  # by the relay
        self.recreations: list[int] = []
        self.forgotten: list[TopicPartition] = []
        parts: Any = self, self.fetching.fetcher, self  # committer, fetcher, positions
        self.assigned = AssignedPartitions(
            self.clock,  # type: ignore[arg-type]
            lambda topic: [self.stream],
            100,
            5.0,
            True,
            NoListener(),
            lambda assigned: parts,
        )
        self.assigned.assign({KEY: None})
        self.buffer = self.assigned.buffers[KEY]

    async def begin(self, buffers: Iterable[FetchBuffer]) -> None:
        for buffer in buffers:
            buffer.begin(0)

    async def recreated(self, buffer: FetchBuffer, error: TopicRecreated) -> None:
        self.recreations.append(error.now.int)

    async def commit_quietly(self, offsets: dict[TopicPartition, int], buffers: Any, timeout: float) -> None:
        assert all(self.assigned.is_ours(buffer) for buffer in buffers.values())
        self.commits.append(offsets)

    def unread(self) -> Mapping[TopicPartition, int]:
        return self.kept

    def forget(self, partition: TopicPartition) -> None:
        self.forgotten.append(partition)
        self.kept.pop(partition, None)

    def read(self, count: int) -> None:
        """Let ten messages come, and the reader take so many of them."""
        self.buffer.add(Chunk(iter([messages("t", *range(10))]), 10, 10))
        self.assigned.filled(self.buffer)
        assert len(self.stream.take(count)) == count


def test_a_seek_after_an_error_continues_there() -> None:
    harness = Harness()
    assert harness.fetching.iterate() == [(1, {KEY: 0})]
    harness.fetching.answer(t=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert harness.fetching.iterate(1) == []
    harness.assigned.seek(KEY, 5)
    assert harness.fetching.iterate() == [(1, {KEY: 5})]


def test_a_seek_while_paused_is_fetched_after_resume() -> None:
    harness = Harness()
    harness.assigned.pause(KEY)
    harness.assigned.seek(KEY, 5)
    assert harness.fetching.iterate() == []
    harness.assigned.resume(KEY)
    assert harness.fetching.iterate() == [(1, {KEY: 5})]


def test_a_lost_partition_is_not_paused_when_it_returns() -> None:
    harness = Harness()
    harness.assigned.pause(KEY)
    ensureDeferred(harness.assigned.lose([KEY]))
    harness.assigned.assign({KEY: None})
    assert harness.assigned.paused == set()
    assert harness.fetching.iterate() == [(1, {KEY: 0})]


def test_revocation_waits_for_a_busy_reader_and_keeps_its_position() -> None:
    harness = Harness()
    harness.read(4)
    done = ensureDeferred(harness.assigned.revoke([KEY]))
    assert (harness.commits, harness.assigned.given(), harness.assigned.is_ours(harness.buffer)) == ([], {KEY: 4}, True)
    harness.stream.take()
    assert done.called
    assert (harness.commits, harness.assigned.given(), harness.assigned.is_ours(harness.buffer)) == (
        [{KEY: 4}],
        {},
        False,
    )


def test_messages_and_offsets_of_a_deleted_topic_are_dropped() -> None:
    harness = Harness()
    harness.assigned.relay = harness
    harness.read(4)
    begun = harness.buffer.round
    harness.assigned.recreated(harness.buffer, TopicRecreated("t", UUID(int=1), UUID(int=2)))
    assert (harness.assigned.given(), harness.forgotten, harness.recreations) == ({}, [KEY], [2])
    assert harness.buffer.round > begun, "answers on their way are dropped, too"
    assert harness.stream.take() == []
    ensureDeferred(harness.assigned.revoke([KEY]))
    assert harness.commits == [{}]


def test_the_offsets_of_a_deleted_topic_are_not_committed_at_a_revocation() -> None:
    harness = Harness()
    harness.read(4)
    harness.buffer.topic_id = UUID(int=1)
    harness.stream.take()
    harness.stream.take()
    ensureDeferred(harness.assigned.revoke([KEY]))
    assert harness.commits == [{}]


def test_a_paused_position_is_still_of_its_topic() -> None:
    harness = Harness()
    harness.buffer.topic_id = UUID(int=1)
    harness.assigned.pause(KEY)
    assert harness.buffer.topic_id == UUID(int=1)
    harness.assigned.seek(KEY, 5)
    assert harness.buffer.topic_id == NO_ID


def test_a_reader_that_does_not_come_back_is_not_waited_for_for_ever() -> None:
    harness = Harness()
    harness.assigned.relay = harness
    harness.read(4)
    done = ensureDeferred(harness.assigned.revoke([KEY]))
    harness.clock.advance(5)
    assert done.called
    assert harness.commits == [{KEY: 0}]
    assert harness.forgotten == [KEY]  # what was not given is given to others


def test_revocation_ends_once_processed_records_are_committed() -> None:
    harness = Harness()
    harness.read(4)
    done = ensureDeferred(harness.assigned.revoke([KEY]))
    harness.assigned.mark_processed({KEY: 3}, harness.assigned.ours())
    assert not done.called
    harness.assigned.mark_processed({KEY: 4}, harness.assigned.ours())
    assert done.called


def test_finish_commits_only_the_delivered_records() -> None:
    harness = Harness()
    harness.assigned.relay = harness
    harness.read(6)
    harness.kept = {KEY: 4}
    harness.assigned.finish()
    ensureDeferred(harness.assigned.revoke([KEY]))
    assert harness.commits == [{KEY: 4}]
    assert KEY in harness.forgotten


def test_finish_does_not_wait_for_records_that_were_not_delivered() -> None:
    harness = Harness()
    harness.assigned.relay = harness
    harness.read(6)
    harness.kept = {KEY: 0}
    done = ensureDeferred(harness.assigned.revoke([KEY]))
    harness.assigned.finish()
    assert done.called
    assert harness.commits == [{KEY: 0}]
    harness.fetching.iterate()
    assert harness.clock.getDelayedCalls() == []
