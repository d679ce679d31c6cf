"""Protocol adapter of `SimpleConsumer` for Kafka 0.7.

Responses keep the order of requests and do not identify them. The broker closes the connection after a rejected
request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

from twisted.internet.defer import Deferred, ensureDeferred, fail, succeed

from pylogbroker.client.adapters import FetchedMessages, Wait
from pylogbroker.client.fetch_requests import FetchTarget
from pylogbroker.client.messages import Decode
from pylogbroker.config import Values
from pylogbroker.errors import CorruptRecords, ErrorCode, KafkaError
from pylogbroker.interfaces import TopicPartition
from pylogbroker.legacy07.client.message_set import Legacy07MessageSet
from pylogbroker.legacy07.records.messages import may_be_message
from pylogbroker.legacy07.wire import (
    Fetch,
    FetchRange,
    Legacy07ErrorCode,
    Legacy07Request,
    MultiFetch,
    Offsets,
    decode_offsets,
    decode_set,
    decode_sets,
    encode_legacy07_request,
)
from pylogbroker.rpc.pipelined_connection import PipelinedConnection
from pylogbroker.wire import WireError

T = TypeVar("T")

_CODES: Final[Mapping[int, ErrorCode]] = {
    Legacy07ErrorCode.OFFSET_OUT_OF_RANGE: ErrorCode.OFFSET_OUT_OF_RANGE,
    Legacy07ErrorCode.INVALID_MESSAGE: ErrorCode.CORRUPT_MESSAGE,
    Legacy07ErrorCode.WRONG_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    Legacy07ErrorCode.INVALID_FETCH_SIZE: ErrorCode.INVALID_FETCH_SIZE,
}
_MEANINGS: Final[Mapping[int, str]] = {
    **{code.value: code.name.lower().replace("_", " ") for code in Legacy07ErrorCode},
    Legacy07ErrorCode.UNKNOWN: "the broker gives no reason; the protocol of 0.7 cannot read topics in Kafka's format",
}


class Legacy07Connection(PipelinedConnection):
    """Client side of one connection. Without a handshake, the peer is not verified."""

    protocol_name = "the protocol of 0.7"

    def ask(self, request: Legacy07Request, read: Callable[[memoryview], T]) -> Deferred[T]:
        if not self.is_open:
            return self._not_connected()
        try:
            data = encode_legacy07_request(request)
        except WireError as error:
            return fail(error)
        return self._send_request(type(request).__name__, (data,), read)


class Legacy07Adapter:
    def __init__(self, connection: Legacy07Connection, settings: Values, decode_value: Decode | None) -> None:
        self._connection = connection
        self._gone: Deferred[None] = Deferred()
        connection.when_lost = lambda _: self._gone.callback(None)
        self._decode_value = decode_value
        self._check_crcs = settings.boolean("check.crcs")

    def fetch(self, targets: Sequence[FetchTarget], wait: Wait) -> Deferred[list[FetchedMessages]]:
        return ensureDeferred(self._fetch(targets))

    async def _fetch(self, targets: Sequence[FetchTarget]) -> list[FetchedMessages]:
        ranges = [FetchRange(target.topic, target.partition, target.offset, target.max_bytes) for target in targets]
        if len(ranges) == 1:
            answers = [await self._connection.ask(Fetch(ranges[0]), decode_set)]
        else:
            error, answers = await self._connection.ask(MultiFetch(ranges), decode_sets)
            if error or len(answers) != len(ranges):
                raise _error_of(error, f"a multifetch of {len(ranges)}, answered with {len(answers)} sets")
        alone = len(ranges) == 1
        return [self._fetched(target, alone, *answer) for target, answer in zip(targets, answers, strict=True)]

    def _fetched(self, target: FetchTarget, alone: bool, code: int, data: memoryview) -> FetchedMessages:
        messages = Legacy07MessageSet(
            target.topic,
            target.partition,
            data,
            target.offset,
            decode_value=self._decode_value,
            check_crcs=self._check_crcs,
        )
        if code:
            return FetchedMessages(messages, False, _error_of(code, f"{target.topic}/{target.partition}"))
        if not data or messages.valid_bytes:
            return FetchedMessages(messages)
        if not may_be_message(data) or (alone and len(data) < target.max_bytes):
            return FetchedMessages(messages, False, _no_message_at(target))
        return FetchedMessages(messages, is_cut=True)

    def offsets_before(self, topic: str, partition: int, time: int, most: int) -> Deferred[list[int]]:
        return ensureDeferred(self._offsets_before(topic, partition, time, most))

    async def _offsets_before(self, topic: str, partition: int, time: int, most: int) -> list[int]:
        error, offsets = await self._connection.ask(Offsets(topic, partition, time, most), decode_offsets)
        if error:
            raise _error_of(error, f"{topic}/{partition}")
        return offsets

    def commit(self, group: str, offsets: Mapping[TopicPartition, int], metadata: str) -> Deferred[None]:
        return fail(_no_groups())

    def committed(self, group: str, partitions: Sequence[TopicPartition]) -> Deferred[dict[TopicPartition, int | None]]:
        return fail(_no_groups())

    def is_open(self) -> bool:
        return self._connection.is_open

    def close(self) -> Deferred[None]:
        if self._gone.called:
            return succeed(None)
        self._connection.close()
        return self._gone


def _no_message_at(target: FetchTarget) -> CorruptRecords:
    """A short response is no error: it ends between messages."""
    return CorruptRecords(
        f"{target.topic}/{target.partition} has no message that begins at offset {target.offset}: it lies within "
        "a message, or the log is damaged there. Begin at the offset or next_offset of a message, or at an offset that "
        "get_offsets_before returns"
    )


def _error_of(code: int, what: str) -> KafkaError:
    return KafkaError(
        f"{what}: {_MEANINGS.get(code, f'error {code}')}", _CODES.get(code, ErrorCode.UNKNOWN_SERVER_ERROR)
    )


def _no_groups() -> KafkaError:
    detail = "the protocol of 0.7 has no committed offsets: keep them in the coordination tree"
    return KafkaError(detail, ErrorCode.UNSUPPORTED_VERSION)
