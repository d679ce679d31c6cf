"""Produce (0): records into logs.

Since version 3 each partition has one record batch. Requests with acks=0 get no response. Records of a transaction need
its transactional id and one of its partitions (see `partitions.transaction_verification`).

The connection waits until all appends are done or queued, so that none overtakes them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine, Generator
from functools import partial
from operator import attrgetter
from typing import Any

import attrs
from twisted.internet.defer import Deferred, ensureDeferred

from pylogbroker.broker.api import serves
from pylogbroker.broker.context import RequestContext
from pylogbroker.broker.current_leaders import find_leader
from pylogbroker.broker.partitions.delayed_write import ACKS_ALL, ACKS_LEADER, DelayedWrite
from pylogbroker.broker.partitions.partition import Partition
from pylogbroker.broker.partitions.transaction_verification import AskedCoordinator, ask_coordinator, verify
from pylogbroker.broker.security.access import Access
from pylogbroker.broker.security.rejections import reject_partitions, reject_topics
from pylogbroker.broker.security.rules import Decision, Handler, Narrowed, Steps, narrow_in_steps
from pylogbroker.broker.services import Services
from pylogbroker.broker.slices import inline_if_short, map_in_steps
from pylogbroker.errors import (
    CorruptRecords,
    ErrorCode,
    InvalidRecords,
    KafkaError,
    ProtocolViolation,
    RejectionReason,
    StorageFailure,
)
from pylogbroker.records import Buffer, Codec, entries
from pylogbroker.records.batch import TRANSACTIONAL
from pylogbroker.security.acls.bindings import AclOperation, AclResourceType
from pylogbroker.storage import Appended
from pylogbroker.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

_WRITE, _TOPIC = AclOperation.WRITE, AclResourceType.TOPIC
_partition_data = attrgetter("partition_data")
_ACKS = (-1, 0, 1)
_MAGIC_AT = 16
_ATTRIBUTES_AT = 22
_FIRST_WITH_V2 = 3
_FIRST_WITH_ZSTD = 7
_FIRST_WITH_LEADERS = 10
_TOO_LARGE = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
_RECORD_ERRORS_MAX = 1000  # of all partitions of a request
_PARTITIONS_INLINE_MAX = 16  # with the default max.message.bytes 16 MB, and some ms
_STEP_BYTES = 64 * 1024  # appended in one step: some hundred microseconds
_APPEND_COST_BYTES = 4096  # what an append costs besides the bytes

Answer = ProduceResponse | Awaitable[ProduceResponse | None] | None


def _narrow(services: Services, context: RequestContext, request: ProduceRequest) -> Decision | Steps[Decision]:
    partitions = sum(map(len, map(_partition_data, request.topic_data)))
    return inline_if_short(_narrow_topics(context, request), partitions)


def _narrow_topics(context: RequestContext, request: ProduceRequest) -> Steps[Decision]:
    access = context.required_access
    narrowed: Decision
    if (yield from _may_write_transaction(access, request)):
        allows = access.allows
        narrowed = yield from narrow_in_steps(
            request, "topic_data", "responses", lambda topic: allows(_WRITE, _TOPIC, topic.name), _reject_topic
        )
    else:
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        narrowed = Narrowed(None, lambda _: _reject(context, request, code))
    return narrowed if narrowed is None or request.acks else Narrowed(narrowed.request, _close)


def _may_write_transaction(access: Access, request: ProduceRequest) -> Steps[bool]:
    """Return False for records of a transaction whose id the client may not use."""
    if request.transactional_id is None:
        return True
    for topic in request.topic_data:
        if any((yield from map_in_steps(_is_transactional, topic.partition_data))):
            return access.allows_on_transactional_id(AclOperation.WRITE, request.transactional_id)
    return True


def _is_transactional(data: PartitionProduceData) -> bool:
    records = data.records or b""
    return len(records) > _ATTRIBUTES_AT and bool(records[_ATTRIBUTES_AT] & TRANSACTIONAL)


def _pass_usual(handle: Handler, guarded: Handler) -> Handler:
    """Return a handler without other checks for one topic that is known to be writable."""

    def choose(services: Services, context: RequestContext, request: ProduceRequest) -> Any:
        topics, access = request.topic_data, context.access
        if (
            access is not None
            and len(topics) == 1
            and topics[0].name in access.writable_topics
            and request.transactional_id is None
        ):
            return handle(services, context, request)
        return guarded(services, context, request)

    return choose


_reject_topic = reject_partitions(
    TopicProduceResponse, lambda data, code: PartitionProduceResponse(data.index, code, -1), "partition_data"
)
_reject = reject_topics(ProduceResponse, _reject_topic, "topic_data")


def _close(_: object) -> None:
    raise ProtocolViolation("a produce with acks=0 is not authorized, and has no answer that could say so")


@serves(ProduceRequest, access=[_narrow], shortcut=_pass_usual)
def handle(
    services: Services, context: RequestContext, request: ProduceRequest
) -> Answer | Generator[None, None, Answer]:
    response = ProduceResponse([])
    appends = _Appends(services, context, request, response)
    if sum(map(len, map(_partition_data, request.topic_data))) > _PARTITIONS_INLINE_MAX:
        return _append_in_steps(appends, request, response)
    for topic in request.topic_data:
        answers = []
        for data in topic.partition_data:
            answer = PartitionProduceResponse(data.index)
            answers.append(answer)
            appends.append(answer, topic.name, data)
        response.responses.append(TopicProduceResponse(topic.name, answers))
    if request.acks and not appends.queued and appends.delayed is None:  # as a rule
        return response
    return _answer(appends, request, response)


def _append_in_steps(
    appends: _Appends, request: ProduceRequest, response: ProduceResponse
) -> Generator[None, None, Answer]:
    appended_bytes = 0
    for topic in request.topic_data:
        answers: list[PartitionProduceResponse] = []
        response.responses.append(TopicProduceResponse(topic.name, answers))
        for data in topic.partition_data:
            answer = PartitionProduceResponse(data.index)
            answers.append(answer)
            appends.append(answer, topic.name, data)
            appended_bytes += _APPEND_COST_BYTES + len(data.records or b"")
            if appended_bytes >= _STEP_BYTES:
                appended_bytes = 0
                yield
    return _answer(appends, request, response)


def _answer(appends: _Appends, request: ProduceRequest, response: ProduceResponse) -> Answer:
    if request.acks:
        if appends.queued:
            return appends.finish()
        if appends.delayed is None:
            return response
        return appends.delayed.wait(request.timeout_ms).addCallback(lambda _: response)
    if appends.queued:
        return appends.finish_unanswered()
    _check_unanswered_errors(response)
    return None


@attrs.define(eq=False, init=False)
class _Appends:
    """Appends of one request: done, queued behind a conversion, or delayed until acknowledged."""

    _services: Services
    _context: RequestContext
    _now_ms: int
    _request: ProduceRequest
    _response: ProduceResponse
    _version: int
    queued: list[Deferred[None]]
    delayed: DelayedWrite | None
    _record_errors_left: int

    def __init__(
        self, services: Services, context: RequestContext, request: ProduceRequest, response: ProduceResponse
    ) -> None:  # each request pays for it: a generated one looks up the defaults
        self._services = services
        self._context = context
        self._now_ms = services.runtime.now_ms()
        self._request = request
        self._response = response
        self._version = context.api_version
        self.queued = []
        self.delayed = None
        self._record_errors_left = _RECORD_ERRORS_MAX

    def append(self, answer: PartitionProduceResponse, topic: str, data: PartitionProduceData) -> None:
        services = self._services
        partition = services.partitions.led.get((topic, data.index))
        try:
            if partition is None:
                partition = services.partitions.find(topic, data.index)
            records = _checked(partition, data, self._request.acks, self._version)
            if not records:
                answer.base_offset = -1
                return
            check = None
            if self._version >= _FIRST_WITH_V2 and records[_ATTRIBUTES_AT] & TRANSACTIONAL:
                transactional_id = self._transactional_id()
                asked = ask_coordinator(services, transactional_id, partition, records, self._version)
                if asked is not None:
                    self._queue(answer, partition, self._append_verified(partition, records, asked))
                    return
                check = partial(verify, services, transactional_id, partition, records, self._version)
            appended = partition.append_now(records, self._now_ms, check)
            if appended is None:
                in_thread = services.runtime.in_thread
                self._queue(answer, partition, partition.append_queued(records, self._now_ms, in_thread, check))
                return
        except KafkaError as error:
            if error.code in _TOO_LARGE:
                services.partitions.traffic.of(topic).rejected_bytes += len(data.records or b"")
            self._fail(answer, topic, partition, error)
        else:
            self._appended(answer, partition, appended)

    def _transactional_id(self) -> str:
        if self._request.transactional_id is None:
            raise _missing_transactional_id()
        return self._request.transactional_id

    async def _append_verified(self, partition: Partition, records: Buffer, asked: AskedCoordinator) -> Appended:
        """Append after the answer of a coordinator on another broker."""
        try:
            check = partial(asked.check, await asked.answer())
            now_ms = self._services.runtime.now_ms()
            appended = partition.append_now(records, now_ms, check)
            if appended is None:
                appended = await partition.append_queued(records, now_ms, self._services.runtime.in_thread, check)
            return appended
        finally:
            asked.close()

    def _queue(
        self, answer: PartitionProduceResponse, partition: Partition, append: Coroutine[Any, Any, Appended]
    ) -> None:
        self.queued.append(ensureDeferred(self._append_later(answer, partition, append)))

    async def _append_later(
        self, answer: PartitionProduceResponse, partition: Partition, append: Coroutine[Any, Any, Appended]
    ) -> None:
        """Append, and wait for the replicas from then on: after an election, others' records have these offsets."""
        try:
            self._appended(answer, partition, await append)
        except KafkaError as error:
            self._fail(answer, partition.topic, partition, error)

    async def finish(self) -> ProduceResponse:
        try:
            async for later in self._services.runtime.slices.over(self.queued):
                await later
        finally:
            for later in self.queued:  # without the caller, nobody asks for the others' errors
                later.addErrback(lambda _: None)
        if self.delayed is not None:
            await self.delayed.wait(self._request.timeout_ms)
        return self._response

    async def finish_unanswered(self) -> None:
        """Hold back the connection as for answers: records in memory must not grow in number."""
        _check_unanswered_errors(await self.finish())

    def _appended(self, answer: PartitionProduceResponse, partition: Partition, appended: Appended) -> None:
        answer.base_offset = appended.base_offset
        answer.log_append_time_ms = appended.log_append_time
        answer.log_start_offset = appended.log_start_offset
        if appended.must_sync or (self._request.acks == -1 and partition.log.high_watermark <= appended.last_offset):
            self._delay(answer, partition, appended)

    def _delay(self, answer: PartitionProduceResponse, partition: Partition, appended: Appended) -> None:
        acks = self._request.acks
        if acks:
            if self.delayed is None:
                self.delayed = DelayedWrite(self._services.runtime.clock)
            marks = ACKS_ALL if acks == -1 else ACKS_LEADER
            self.delayed.add(
                partition, appended.last_offset + 1, marks, partial(self._fail, answer, partition.topic, partition)
            )

    def _fail(
        self, answer: PartitionProduceResponse, topic: str, partition: Partition | None, error: KafkaError
    ) -> None:
        self._services.partitions.traffic.of(topic).append_errors[error.code] += 1
        if error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER and self._version >= _FIRST_WITH_LEADERS:
            self._name_leader(answer, topic)
        answer.error_code, answer.error_message = error.code, error.detail
        answer.base_offset = answer.log_append_time_ms = answer.log_start_offset = -1
        if isinstance(error, InvalidRecords):
            if error.reason is not None:
                self._services.partitions.traffic.of(topic).rejections[error.reason] += error.rejected
            named = error.record_errors[: self._record_errors_left]
            self._record_errors_left -= len(named)
            answer.record_errors = [BatchIndexAndErrorMessage(at, message) for at, message in named]
            if error.record_errors and partition is not None:
                self._services.partitions.log_rejected_records(partition, error)
        if isinstance(error, StorageFailure) and partition is not None:
            self._services.partitions.request_failed(partition.log, error)

    def _name_leader(self, answer: PartitionProduceResponse, topic: str) -> None:
        leader = find_leader(self._services, self._context, topic, answer.index)
        if leader is None:
            return
        answer.current_leader = LeaderIdAndEpoch(leader.id, leader.epoch)
        found, named = leader.address, self._response.node_endpoints
        if found is not None and all(known.node_id != found.id for known in named):
            named.append(NodeEndpoint(found.id, found.host, found.port, found.rack))


def _checked(partition: Partition, data: PartitionProduceData, acks: int, version: int) -> Buffer:
    if acks not in _ACKS:
        raise KafkaError(f"acks={acks} is neither 0, 1 nor -1", ErrorCode.INVALID_REQUIRED_ACKS)
    if acks == -1 and (partition.replication is not None or partition.min_insync_replicas > 1):
        partition.check_enough_replicas()
    if partition.is_internal:
        raise KafkaError(f"{partition.topic} is written by the broker alone", ErrorCode.INVALID_TOPIC_EXCEPTION)
    records = data.records
    if records is None or (version >= _FIRST_WITH_V2 and len(records) <= _ATTRIBUTES_AT):
        raise InvalidRecords("a produce request needs at least one record for each partition")
    if version < _FIRST_WITH_ZSTD:
        return _checked_of_old(records, version)
    if records[_MAGIC_AT] != 2:
        raise _wrong_magic(records, version)
    return records


def _wrong_magic(records: Buffer, version: int) -> KafkaError:
    if records[_MAGIC_AT] > 2:
        return CorruptRecords(f"magic {records[_MAGIC_AT]} is not known")
    return InvalidRecords(
        f"Produce {version} takes record batches (magic 2), not magic {records[_MAGIC_AT]}",
        reason=RejectionReason.MAGIC,
    )


def _checked_of_old(records: Buffer, version: int) -> Buffer:
    """Return the records of a client older than zstd; empty if they are no whole message, which it may send."""
    if version >= _FIRST_WITH_V2 and records[_MAGIC_AT] != 2:
        raise _wrong_magic(records, version)
    found = list(entries(records, partial=True))
    if any(entry.codec is Codec.ZSTD for entry in found):
        raise KafkaError(f"Produce {version} does not know zstd", ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    if version < _FIRST_WITH_V2 and any(entry.is_transactional for entry in found):
        raise _missing_transactional_id()
    return records if found or version >= _FIRST_WITH_V2 else b""


def _missing_transactional_id() -> KafkaError:
    return KafkaError("a transaction without a transactional id", ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)


def _check_unanswered_errors(response: ProduceResponse) -> None:
    """Raise ProtocolViolation for an error with acks=0: only a closed connection makes clients refresh metadata."""
    for topic in response.responses:
        for answer in topic.partition_responses:
            if answer.error_code:
                raise ProtocolViolation(
                    f"a produce with acks=0 to {topic.name}-{answer.index} failed: {answer.error_message}"
                )
