"""The simple consumer: one connection to one broker, no state.

    consumer = SimpleConsumer("localhost", 9092)
    (offset,) = await consumer.get_offsets_before("orders", 0, EARLIEST, 1)
    messages = await consumer.fetch("orders", 0, offset, 100_000)
    await consumer.commit_offsets("readers", {("orders", 0): messages.next_offset})
    await consumer.close()

The caller chooses offsets and finds leaders; nothing is retried. Calls open a missing connection, and may overlap.

`protocol="simple"` is Kafka 0.7's: offsets are byte positions, brokers never wait for messages; no keys, no groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs
from twisted.internet.defer import Deferred, DeferredLock, ensureDeferred

from pylogbroker.client import arguments
from pylogbroker.client.adapters import FetchedMessages, ProtocolAdapter, Wait
from pylogbroker.client.adapters.kafka import KafkaAdapter
from pylogbroker.client.connection_settings import connection_settings
from pylogbroker.client.errors import Closed, OutOfRange, RecordTooLarge
from pylogbroker.client.fetch_requests import FetchTarget
from pylogbroker.client.messages import MessageSet
from pylogbroker.client.plugin_guards import decoder_of
from pylogbroker.client.settings import CONSUMER, read
from pylogbroker.errors import ConfigError, ErrorCode, KafkaError
from pylogbroker.interfaces import IDecoder, TopicPartition
from pylogbroker.legacy07.client.adapter import Legacy07Adapter, Legacy07Connection
from pylogbroker.rpc.connection import connect
from pylogbroker.rpc.endpoint import dial
from pylogbroker.rpc.security import OPEN
from pylogbroker.rpc.settings import Address
from pylogbroker.wire.messages.list_offsets import EARLIEST, LATEST

__all__ = ["EARLIEST", "LATEST", "SimpleConsumer"]

FetchSpec = tuple[str, int, int] | tuple[str, int, int, int]


class SimpleConsumer:
    """Takes the settings of consumers. Call methods on the reactor thread."""

    def __init__(
        self,
        host: str = "localhost",
        port: int = 9092,
        *,
        protocol: str = "kafka",
        reactor: Any = None,
        settings: Mapping[str, Any] | None = None,
        decoder: str | IDecoder | None = None,
        key_decoder: str | IDecoder | None = None,
        **named_settings: Any,
    ) -> None:
        if protocol not in ("kafka", "simple"):
            raise ConfigError(f"protocol: {protocol!r} is not accepted; expected kafka or simple")
        self.address = Address(arguments.host("host", host), arguments.number("port", port, 1, 65535))
        self.settings = read(CONSUMER, settings, arguments.names_of(SimpleConsumer), **named_settings)
        self._protocol = protocol
        self._connections = connection_settings(self.settings)
        if protocol == "simple" and self._connections.security is not OPEN:
            raise ConfigError("security.protocol: Kafka 0.7 has neither TLS nor SASL; expected PLAINTEXT")
        self._reactor = arguments.reactor_or_default(reactor)
        self._decode_key = decoder_of(self.settings, "key.deserializer", key_decoder)
        self._decode_value = decoder_of(self.settings, "value.deserializer", decoder)
        self._lock = DeferredLock()
        self._adapter: ProtocolAdapter | None = None
        self._closed = False

    def __repr__(self) -> str:
        return f"<SimpleConsumer of {self.address}{', closed' if self._closed else ''}>"

    # messages

    def fetch(
        self,
        topic: str,
        partition: int,
        offset: int,
        max_bytes: int | None = None,
        *,
        max_wait_ms: int = 0,
        min_bytes: int = 0,
    ) -> Deferred[MessageSet]:
        """Fetch up to `max_bytes` of messages from an offset; by default max.partition.fetch.bytes.

        A larger first message is fetched too; beyond fetch.max.bytes it raises RecordTooLarge. At the log's end the set
        is empty, unless messages arrive within `max_wait_ms`. An offset outside the log raises OutOfRange; other errors
        of the broker raise KafkaError.
        """
        wait = _wait(max_wait_ms, min_bytes)
        return ensureDeferred(self._fetch(self._target(topic, partition, offset, max_bytes), wait))

    def multifetch(
        self, specs: Iterable[FetchSpec], *, max_wait_ms: int = 0, min_bytes: int = 0
    ) -> Deferred[list[MessageSet]]:
        """Fetch sets in one request: `(topic, partition, offset)` or `(topic, partition, offset, max_bytes)`.

        Iterating over a set raises its error.
        """
        wait = _wait(max_wait_ms, min_bytes)
        return ensureDeferred(self._multifetch([self._target(*_spec(spec)) for spec in specs], wait))

    def _target(self, topic: str, partition: int, offset: int, max_bytes: int | None = None) -> FetchTarget:
        if max_bytes is None:
            max_bytes = self.settings.integer("max.partition.fetch.bytes")
        return FetchTarget(
            arguments.name("topic", topic),
            arguments.number("partition", partition),
            arguments.whole("offset", offset),
            arguments.number("max_bytes", max_bytes),
        )

    async def _fetch(self, target: FetchTarget, wait: Wait) -> MessageSet:
        [message_set] = await self._multifetch([target], wait)
        if message_set.error is not None:
            raise message_set.error
        return message_set

    async def _multifetch(self, targets: Sequence[FetchTarget], wait: Wait) -> list[MessageSet]:
        if not targets:
            return []
        adapter = await self._connected()
        fetched = await adapter.fetch(targets, wait)
        return [await self._completed(adapter, *pair) for pair in zip(targets, fetched, strict=True)]

    async def _completed(self, adapter: ProtocolAdapter, target: FetchTarget, fetched: FetchedMessages) -> MessageSet:
        """Refetch alone, doubling the size, until a message is whole."""
        most = self.settings.integer("fetch.max.bytes")
        while fetched.is_cut and target.max_bytes < most:
            target = attrs.evolve(target, max_bytes=min(2 * max(target.max_bytes, 1), most))
            [fetched] = await adapter.fetch([target], Wait())
        messages = fetched.messages
        if fetched.is_cut:
            place = f"{target.topic}/{target.partition} at offset {target.offset}"
            messages.error = RecordTooLarge(f"{place}: the message exceeds fetch.max.bytes={most}")
        elif fetched.error is not None:
            messages.error = await self._explained(adapter, target, fetched.error)
        return messages

    async def _explained(self, adapter: ProtocolAdapter, target: FetchTarget, error: KafkaError) -> KafkaError:
        if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
            return error
        place = target.topic, target.partition
        first = await adapter.offsets_before(*place, EARLIEST, 1)
        end = await adapter.offsets_before(*place, LATEST, 1)
        return OutOfRange(*place, target.offset, first[0], end[0]) if first and end else error

    # offsets

    def get_offsets_before(self, topic: str, partition: int, time: int, max_offsets: int = 1) -> Deferred[list[int]]:
        """Return offsets from which to read messages written before `time` (ms), newest first.

        LATEST gives the log's end, EARLIEST its beginning. Offsets are base offsets of segments. Newer brokers, and all
        with isolation.level read_committed, return at most one: that of the first message at or after the time.
        """
        place = arguments.name("topic", topic), arguments.number("partition", partition)
        most = arguments.number("max_offsets", max_offsets, 1)
        return ensureDeferred(self._get_offsets_before(*place, arguments.whole("time", time), most))

    async def _get_offsets_before(self, topic: str, partition: int, time: int, most: int) -> list[int]:
        return await (await self._connected()).offsets_before(topic, partition, time, most)

    def commit_offsets(self, group: str, offsets: Mapping[TopicPartition, int], metadata: str = "") -> Deferred[None]:
        """Commit `{(topic, partition): offset}` for a group without members.

        If another broker is the coordinator, KafkaError with NOT_COORDINATOR names it.
        """
        group, given = arguments.name("group", group), arguments.offsets("offsets", offsets)
        return ensureDeferred(self._commit_offsets(group, given, metadata))

    async def _commit_offsets(self, group: str, offsets: Mapping[TopicPartition, int], metadata: str) -> None:
        await (await self._connected()).commit(group, offsets, metadata)

    def fetch_offsets(
        self, group: str, partitions: Iterable[TopicPartition]
    ) -> Deferred[dict[TopicPartition, int | None]]:
        """Return each committed offset, or None."""
        group, keys = arguments.name("group", group), arguments.partitions("partitions", partitions)
        return ensureDeferred(self._fetch_offsets(group, keys))

    async def _fetch_offsets(self, group: str, partitions: list[TopicPartition]) -> dict[TopicPartition, int | None]:
        return await (await self._connected()).committed(group, partitions)

    # the connection

    def close(self) -> Deferred[None]:
        """Close; pending requests fail. Fires when closed."""
        self._closed = True
        return ensureDeferred(self._close())

    async def _close(self) -> None:
        adapter, self._adapter = self._adapter, None
        if adapter is not None:
            await adapter.close()

    async def _connected(self) -> ProtocolAdapter:
        adapter = self._adapter
        if adapter is not None and adapter.is_open():
            return adapter
        return await self._lock.run(self._connect)

    async def _connect(self) -> ProtocolAdapter:
        if self._closed:
            raise Closed(f"the consumer of {self.address} was closed")
        if self._adapter is None or not self._adapter.is_open():
            self._adapter = await self._dial()
            if self._closed:
                await self._close()
                raise Closed(f"the consumer of {self.address} was closed")
        return self._adapter

    async def _dial(self) -> ProtocolAdapter:
        how = self._connections
        if self._protocol == "simple":
            legacy = await dial(self._reactor, self.address, how, Legacy07Connection)
            return Legacy07Adapter(legacy, self.settings, self._decode_value)
        connection = await connect(self._reactor, self.address, how)
        return KafkaAdapter(self._reactor, connection, self.settings, self._decode_key, self._decode_value)


def _wait(max_wait_ms: int, min_bytes: int) -> Wait:
    wait = arguments.number("max_wait_ms", max_wait_ms)
    return Wait(wait, arguments.number("min_bytes", min_bytes) or int(wait > 0))


def _spec(spec: FetchSpec) -> FetchSpec:
    if not isinstance(spec, tuple | list) or len(spec) not in (3, 4):
        raise arguments.invalid("specs", spec, "(topic, partition, offset) or (topic, partition, offset, max_bytes)")
    return spec
