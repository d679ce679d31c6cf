"""A member made of afkak's ConsumerGroup, whose only assignment strategy is its own, called `consumer`."""

from __future__ import annotations

from typing import Any

from afkak import OFFSET_EARLIEST, Consumer, ConsumerGroup, KafkaClient
from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.task import LoopingCall, react

from tests.clients.members.base import (
    HEARTBEAT_MS,
    POLL_SECONDS,
    Arguments,
    arguments,
    commands,
    metadata_of,
    next_command,
    say,
    say_assigned,
    say_record,
)
from tests.clients.model import Rec

NEVER_MS = 3_600_000


class Member(ConsumerGroup):  # type: ignore[misc]
    """Prints its assignments; each partition has a Consumer of its own."""

    def on_join_complete(self, assignments: dict[str, list[int]]) -> None:
        super().on_join_complete(assignments)
        say_assigned(each for partitions in assignments.values() for each in partitions)


def process(consumer: Consumer, messages: list[Any]) -> None:
    for each in messages:
        say_record(Rec(each.message.value, each.message.key, partition=each.partition, offset=each.offset))


def make(reactor: Any, given: Arguments) -> Member:
    client = KafkaClient(given.bootstrap, reactor=reactor)
    options = {
        "fetch_max_wait_time": 50,
        "fetch_size_bytes": 1,
        "auto_offset_reset": OFFSET_EARLIEST,
        "auto_commit_every_n": 0,
        "auto_commit_every_ms": NEVER_MS,
    }
    return Member(
        client,
        given.group,
        [given.topic],
        process,
        consumer_kwargs=options,
        session_timeout_ms=given.session_ms,
        heartbeat_interval_ms=HEARTBEAT_MS,
        initial_backoff_ms=50,
        retry_backoff_ms=50,
        fatal_backoff_ms=200,
    )


async def commit(member: Member, metadata: str) -> None:
    consumers = [each for several in member.consumers.values() for each in several]
    for each in consumers:
        each.commit_metadata = metadata.encode()
    await DeferredList([each.commit() for each in consumers if each.last_processed_offset is not None])
    say("committed")


async def run(reactor: Any) -> None:
    member, lines = make(reactor, arguments()), commands()
    ended: Deferred[None] = Deferred()
    member.start().addErrback(lambda failure: None if ended.called else ended.errback(failure))

    def obey() -> Any:
        command = next_command(lines)
        if command.startswith("commit"):
            return Deferred.fromCoroutine(commit(member, metadata_of(command)))
        if command == "close" and not ended.called:
            ended.callback(None)
        return None

    ear = LoopingCall(obey)
    ear.start(POLL_SECONDS)
    await ended
    await member.stop()
    await member.client.close()
    say("closed")


if __name__ == "__main__":
    react(lambda reactor: Deferred.fromCoroutine(run(reactor)))
