"""Reading of partitions from given offsets, without a group."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from pylogbroker.cli.cluster_options import Connection
from pylogbroker.cli.output import note
from pylogbroker.errors import ErrorCode, KafkaError, PylogbrokerError
from pylogbroker.features import on_first_use
from pylogbroker.formatting import counted

if TYPE_CHECKING:
    from uuid import UUID

    from pylogbroker import wire
    from pylogbroker.blocking.admin import BlockingAdmin
    from pylogbroker.client import errors as client_errors
    from pylogbroker.client import settings as client_settings
    from pylogbroker.client import sync
    from pylogbroker.client.messages import Message, MessageSet
    from pylogbroker.client.sync import SimpleConsumer
    from pylogbroker.interfaces import TopicPartition
else:
    client_errors = on_first_use("pylogbroker.client.errors")
    client_settings = on_first_use("pylogbroker.client.settings")
    sync = on_first_use("pylogbroker.client.sync")
    wire = on_first_use("pylogbroker.wire")

_WAIT_MS: Final = 500  # for records at the logs' ends, shared by the leaders
_BACKOFF_SECONDS: Final = 0.2


class PartitionReader:
    """Reads on for ever, or up to `ends`. Follows leaders that move.

    A topic that was deleted and created again is read from its beginning. Passing errors are written to standard error.
    Reading up to `ends` fails with the error once no record has come for the connection's timeout; reading for ever
    goes on.
    """

    def __init__(
        self,
        connection: Connection,
        admin: BlockingAdmin,
        starts: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int] | None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._admin = admin
        self._settings = {"isolation.level": "read_committed", **connection.settings(client_settings.CONSUMER)}
        self._settings.pop("bootstrap.servers")
        self._timeout = connection.seconds
        self._positions = dict(starts)
        self._ids: dict[str, UUID] = {}
        self._ends = ends
        self._clock = clock
        self._sleep = sleep

    def messages(self) -> Iterator[Message]:
        reached, failing_since = dict(self._positions), self._clock()
        reported: set[str] = set()
        while not self._at_end():
            try:
                with ExitStack() as stack:
                    yield from self._from_leaders(stack)
            except PylogbrokerError as error:
                if not _is_passing(error):
                    raise
                if self._positions != reached or not reported:
                    reached, failing_since = dict(self._positions), self._clock()
                    reported.clear()
                if self._ends is not None and self._clock() - failing_since >= self._timeout:
                    raise
                if str(error) not in reported:
                    reported.add(str(error))
                    note(f"{error}: trying again")
                self._sleep(_BACKOFF_SECONDS)

    def _at_end(self) -> bool:
        return self._ends is not None and all(self._is_done(key) for key in self._positions)

    def _is_done(self, key: TopicPartition) -> bool:
        return self._ends is not None and self._positions[key] >= self._ends[key]

    def _from_leaders(self, stack: ExitStack) -> Iterator[Message]:
        """Yield messages until a leader has moved, or all partitions are at their ends."""
        leaders = self._leaders(stack)
        wait_ms = max(1, _WAIT_MS // len(leaders))
        while not self._at_end():
            for consumer, keys in leaders:
                targets = [(*key, self._positions[key]) for key in keys if not self._is_done(key)]
                message_sets = consumer.multifetch(targets, max_wait_ms=wait_ms, min_bytes=1)
                for key, messages in zip([target[:2] for target in targets], message_sets, strict=True):
                    yield from self._of_set(key, messages)

    def _of_set(self, key: TopicPartition, messages: MessageSet) -> Iterator[Message]:
        if isinstance(messages.error, client_errors.OutOfRange) and self._positions[key] < messages.error.first:
            skipped = messages.error.first - self._positions[key]
            note(f"{key[0]}/{key[1]}: deleted before they were read: {counted(skipped, 'record')}")
            self._positions[key] = messages.error.first
            return
        for message in messages:
            if self._ends is not None and message.offset >= self._ends[key]:  # the offsets before may be a marker's
                self._positions[key] = message.offset
                return
            self._positions[key] = message.next_offset
            yield message
        self._positions[key] = max(self._positions[key], messages.next_offset)

    def _note_ids(self, ids: Mapping[str, UUID]) -> None:
        """Begin recreated topics at their beginning; raise TopicRecreated if the ends are those of the old one."""
        for topic, now in ids.items():
            before = self._ids.setdefault(topic, now)
            if now != before and wire.NO_ID not in (now, before):
                self._ids[topic] = now
                error = client_errors.TopicRecreated(topic, before, now)
                if self._ends is not None:
                    raise error
                note(f"{error}; reading it from its beginning")
                self._positions |= {key: 0 for key in self._positions if key[0] == topic}

    def _leaders(self, stack: ExitStack) -> list[tuple[SimpleConsumer, list[TopicPartition]]]:
        brokers = {broker.broker_id: broker for broker in self._admin.cluster.describe().brokers}
        topics = self._admin.topics.describe({topic for topic, _ in self._positions})
        self._note_ids({name: consumers.topic_id for name, consumers in topics.items()})
        by_leader: dict[int, list[TopicPartition]] = {}
        for topic, partition in self._positions:
            leader = topics[topic].partitions[partition].leader
            if leader not in brokers:
                raise KafkaError(f"{topic}/{partition} has no leader now", ErrorCode.LEADER_NOT_AVAILABLE)
            by_leader.setdefault(leader, []).append((topic, partition))
        assigned = []
        for leader, keys in by_leader.items():
            address = brokers[leader]
            consumer = sync.SimpleConsumer(address.host, address.port, settings=self._settings, timeout=self._timeout)
            assigned.append((stack.enter_context(consumer), keys))
        return assigned


def _is_passing(error: PylogbrokerError) -> bool:
    return client_errors.is_retriable(error)
