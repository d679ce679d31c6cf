"""Kafka's protocol for `SimpleConsumer`, without fetch sessions or group membership."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from twisted.internet.defer import Deferred, ensureDeferred, succeed

from pylogbroker.client.adapters import FetchedMessages, Wait
from pylogbroker.client.errors import COORDINATOR_NOT_READY
from pylogbroker.client.fetch_requests import NAMES_VERSION_MAX, FetchTarget, fetch_request
from pylogbroker.client.messages import Decode, MessageSet
from pylogbroker.config import Values
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.interfaces import TopicPartition
from pylogbroker.rpc.answer_rows import rows_by_key, sole_row
from pylogbroker.rpc.backoff import Backoff
from pylogbroker.rpc.connection import BrokerConnection
from pylogbroker.rpc.errors import error_of, raise_for
from pylogbroker.rpc.retries import Pauses, retrying
from pylogbroker.wire import Request, UnsupportedVersion
from pylogbroker.wire.messages.fetch import FetchRequest, FetchResponse, PartitionData
from pylogbroker.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from pylogbroker.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from pylogbroker.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from pylogbroker.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic, OffsetFetchResponse

_FIND_COORDINATOR: Final = 3  # the last with one key
_OFFSET_FETCH: Final = 7  # the last with one group
_SETTLING: Final = 10.0  # seconds, at most, until a coordinator is ready


class KafkaAdapter:
    def __init__(
        self,
        clock: Any,
        connection: BrokerConnection,
        settings: Values,
        decode_key: Decode | None,
        decode_value: Decode | None,
    ) -> None:
        self._connection = connection
        self._settings = settings
        self._pauses = Pauses(clock)
        self._backoff = Backoff.of(settings)
        self._timeout = settings.integer("request.timeout.ms") / 1000
        self._max_bytes = settings.integer("fetch.max.bytes")
        self._committed_only = settings.text("isolation.level") == "read_committed"
        self._check_crcs = settings.boolean("check.crcs")
        self._decoders = decode_key, decode_value
        self._gone: Deferred[None] = Deferred()
        connection.when_lost = lambda _: self._gone.callback(None)

    @property
    def _broker(self) -> str:
        return str(self._connection.address)

    # messages

    def fetch(self, targets: Sequence[FetchTarget], wait: Wait) -> Deferred[list[FetchedMessages]]:
        return ensureDeferred(self._fetch(targets, wait))

    async def _fetch(self, targets: Sequence[FetchTarget], wait: Wait) -> list[FetchedMessages]:
        """Fetch repeatedly if needed: a request may name a partition once."""
        results: list[FetchedMessages | None] = [None] * len(targets)
        left = list(range(len(targets)))
        while left:
            round_: dict[TopicPartition, int] = {}
            for index in left:
                round_.setdefault((targets[index].topic, targets[index].partition), index)
            request = self._fetch_request([targets[index] for index in round_.values()], wait)
            answers = await self._ask_for_records(request, wait)
            for key, index in round_.items():
                results[index] = self._fetched(targets[index], answers.get(key))
            left = [index for index in left if results[index] is None]
        return [result for result in results if result is not None]

    def _fetch_request(self, targets: Sequence[FetchTarget], wait: Wait) -> FetchRequest:
        max_bytes = max(self._max_bytes, *(target.max_bytes for target in targets))
        return fetch_request(
            self._settings, targets, wait_ms=wait.max_ms, min_bytes=wait.min_bytes, max_bytes=max_bytes
        )

    async def _ask_for_records(self, request: FetchRequest, wait: Wait) -> dict[TopicPartition, PartitionData]:
        timeout = self._timeout + wait.max_ms / 1000
        version = min(NAMES_VERSION_MAX, self._connection.version_of(FetchRequest))
        answer: FetchResponse = await self._connection.request(request, version=version, timeout=timeout)
        raise_for(answer.error_code)
        return {
            (topic.topic, partition.partition_index): partition
            for topic in answer.responses
            for partition in topic.partitions
        }

    def _fetched(self, target: FetchTarget, answer: PartitionData | None) -> FetchedMessages:
        if answer is None:
            answer = PartitionData(target.partition, ErrorCode.UNKNOWN_SERVER_ERROR)
        aborted = (answer.aborted_transactions or ()) if self._committed_only else ()
        decode_key, decode_value = self._decoders
        messages = MessageSet(
            target.topic,
            target.partition,
            answer.records or b"",  # type: ignore[arg-type]
            target.offset,
            aborted=[(transaction.producer_id, transaction.first_offset) for transaction in aborted],
            decode_key=decode_key,
            decode_value=decode_value,
            check_crcs=self._check_crcs,
        )
        if answer.error_code:
            return FetchedMessages(messages, False, _partition_error(answer.error_code, target.topic, target.partition))
        end = answer.last_stable_offset if self._committed_only else answer.high_watermark
        return FetchedMessages(messages, not messages.valid_bytes and (bool(messages.data) or end > target.offset))

    # offsets

    def offsets_before(self, topic: str, partition: int, time: int, most: int) -> Deferred[list[int]]:
        return ensureDeferred(self._offsets_before(topic, partition, time, most))

    async def _offsets_before(self, topic: str, partition: int, time: int, most: int) -> list[int]:
        """List offsets in version 0; newer brokers support only one offset."""
        row = ListOffsetsPartition(partition, timestamp=time, max_num_offsets=most)
        request = ListOffsetsRequest(-1, int(self._committed_only), [ListOffsetsTopic(topic, [row])])
        answer: ListOffsetsResponse
        try:
            if self._committed_only:
                raise UnsupportedVersion("version 0 does not support transactions")
            answer = await self._connection.request(request, version=0)
        except UnsupportedVersion:
            row.max_num_offsets = 1
            answer = await self._connection.request(request)
        listed = sole_row(answer, "topics.partitions", self._broker, partition_index=partition)
        _raise_for(listed.error_code, topic, partition)
        if listed.old_style_offsets or listed.offset < 0:
            return list(listed.old_style_offsets)
        return [listed.offset][:most]

    # groups

    def commit(self, group: str, offsets: Mapping[TopicPartition, int], metadata: str) -> Deferred[None]:
        topics: dict[str, OffsetCommitRequestTopic] = {}
        for (topic, partition), offset in offsets.items():
            topic_row = topics.setdefault(topic, OffsetCommitRequestTopic(topic))
            row = OffsetCommitRequestPartition(partition, offset, committed_metadata=metadata)
            topic_row.partitions.append(row)
        request = OffsetCommitRequest(group, topics=list(topics.values()))

        async def commit() -> None:
            answer: OffsetCommitResponse = await self._connection.request(request)
            for key, row in rows_by_key(answer, "topics.partitions", self._broker, offsets, _key).items():
                _raise_for(row.error_code, *key)

        return self._when_settled(group, commit)

    def committed(self, group: str, partitions: Sequence[TopicPartition]) -> Deferred[dict[TopicPartition, int | None]]:
        topics: dict[str, OffsetFetchRequestTopic] = {}
        for topic, partition in partitions:
            topics.setdefault(topic, OffsetFetchRequestTopic(topic)).partition_indexes.append(partition)
        request = OffsetFetchRequest(group, list(topics.values()), require_stable=self._committed_only)

        async def fetch() -> dict[TopicPartition, int | None]:
            version = min(_OFFSET_FETCH, self._connection.version_of(OffsetFetchRequest))
            answer: OffsetFetchResponse = await self._connection.request(request, version=version)
            raise_for(answer.error_code)
            return _committed(rows_by_key(answer, "topics.partitions", self._broker, partitions, _key))

        return self._when_settled(group, fetch)

    def _when_settled(self, group: str, work: Any) -> Deferred[Any]:
        """Retry until the coordinator is ready; looking it up creates a missing offsets topic."""

        async def attempt() -> Any:
            try:
                return await work()
            except KafkaError as error:
                if error.code in COORDINATOR_NOT_READY:
                    await self._find_coordinator(group)
                raise

        return ensureDeferred(retrying(attempt, self._pauses, self._backoff, _SETTLING, retriable=_is_unsettled))

    async def _find_coordinator(self, group: str) -> None:
        version = min(_FIND_COORDINATOR, self._connection.version_of(FindCoordinatorRequest))
        answer: FindCoordinatorResponse = await self._connection.request(_coordinator_of(group), version=version)
        raise_for(answer.error_code, answer.error_message or f"group {group}")
        address = self._connection.address
        if answer.port != address.port:
            detail = f"the coordinator of group {group} is {answer.host}:{answer.port}, not {address}"
            raise _Elsewhere(detail, ErrorCode.NOT_COORDINATOR)

    # the connection

    def is_open(self) -> bool:
        return self._connection.is_open

    def close(self) -> Deferred[None]:
        self._pauses.close()
        if self._gone.called:
            return succeed(None)
        self._connection.close()
        return self._gone


class _Elsewhere(KafkaError):
    """Another broker is the coordinator; a retry will not help."""


def _is_unsettled(error: BaseException) -> bool:
    return isinstance(error, KafkaError) and not isinstance(error, _Elsewhere) and error.code in COORDINATOR_NOT_READY


def _coordinator_of(group: str) -> Request:
    return FindCoordinatorRequest(key=group)


def _partition_error(code: int, topic: str, partition: int) -> KafkaError:
    error = error_of(code)
    return KafkaError(f"{topic}/{partition}: {error.detail}", error.code)


def _raise_for(code: int, topic: str, partition: int) -> None:
    if code:
        raise _partition_error(code, topic, partition)


def _committed(rows: Mapping[TopicPartition, Any]) -> dict[TopicPartition, int | None]:
    offsets: dict[TopicPartition, int | None] = {}
    for key, row in rows.items():
        _raise_for(row.error_code, *key)
        offsets[key] = None if row.committed_offset < 0 else row.committed_offset
    return offsets


def _key(topic: Any, partition: Any) -> TopicPartition:
    return topic.name, partition.partition_index
