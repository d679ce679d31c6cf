"""Produce (0): records into logs.

Since version 3 each partition has one record batch. Requests with acks=0 get no response. Records of a transaction need
its transactional id and one of its partitions (see `partitions.transaction_verification`).

The connection waits until all appends are done or queued, so that none overtakes them. Batches behind a rejected one
get the same error (see `pylogbroker.broker.requests.rejected_batches`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine
from functools import partial
from typing import Any, Protocol

import attrs
from twisted.internet.defer import Deferred, ensureDeferred

from pylogbroker.broker.partitions.delayed_write import ACKS_ALL, ACKS_LEADER, DelayedWrite
from pylogbroker.broker.partitions.partition import Check, Partition
from pylogbroker.broker.partitions.record_checks import PartitionCheck
from pylogbroker.broker.partitions.transaction_verification import AskedCoordinator, ask_coordinator, verify
from pylogbroker.broker.repeated.produce import RepeatedProduce
from pylogbroker.broker.repeated.produce_several import ProduceToSeveral
from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.batch_errors import BatchErrors
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.requests.produced_records import (
    ATTRIBUTES_AT,
    FIRST_BY_ID,
    FIRST_WITH_V2,
    checked_records,
    missing_transactional_id,
)
from pylogbroker.broker.requests.rejected_batches import PRODUCER_HEAD_BYTES, ProducerBatch
from pylogbroker.broker.requests.topic_ids import name_topic, name_topics
from pylogbroker.broker.security.access import Access
from pylogbroker.broker.security.rejections import reject_partitions, reject_topics
from pylogbroker.broker.security.rules import Decision, Handler, Narrowed, narrow_each
from pylogbroker.broker.services import (
    HasConfig,
    HasMetadata,
    HasNode,
    HasPartitions,
    HasRuntime,
    HasTransactions,
    HasTransactionService,
)
from pylogbroker.errors import (
    ErrorCode,
    KafkaError,
    ProtocolViolation,
)
from pylogbroker.long_loops import give_way, mapped, over, settled
from pylogbroker.records import Buffer
from pylogbroker.records.batch import TRANSACTIONAL
from pylogbroker.security.acls.bindings import AclOperation, AclResourceType
from pylogbroker.storage import Appended
from pylogbroker.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

_WRITE, _TOPIC = AclOperation.WRITE, AclResourceType.TOPIC
_TOO_LARGE = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
_STEP_BYTES = 64 * 1024  # appended in one step: some hundred microseconds
_APPEND_COST_BYTES = 4096  # what an append costs besides the bytes

Answer = ProduceResponse | Awaitable[ProduceResponse | None] | None


class _Services(
    HasConfig, HasRuntime, HasMetadata, HasPartitions, HasNode, HasTransactions, HasTransactionService, Protocol
):
    """Services that this API uses."""


async def _narrow(services: _Services, context: RequestContext, request: ProduceRequest) -> Decision:
    access = context.required_access
    by_id = context.api_version >= FIRST_BY_ID
    if by_id:
        await name_topics(services.metadata.image, request.topic_data)
    narrowed: Decision
    if await _may_write_transaction(access, request):
        allows = access.allows
        narrowed = await narrow_each(
            request,
            "topic_data",
            "responses",
            lambda topic: (by_id and not topic.name) or allows(_WRITE, _TOPIC, topic.name),
            _reject_topic,
        )
    else:
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        narrowed = Narrowed(None, lambda _: _reject(context, request, code))
    return narrowed if narrowed is None or request.acks else Narrowed(narrowed.request, _close)


async def _may_write_transaction(access: Access, request: ProduceRequest) -> bool:
    """Return False for records of a transaction whose id the client may not use."""
    if request.transactional_id is None:
        return True
    for topic in request.topic_data:
        if any(await mapped(_is_transactional, topic.partition_data)):
            return access.allows_on_transactional_id(AclOperation.WRITE, request.transactional_id)
    return True


def _is_transactional(data: PartitionProduceData) -> bool:
    records = data.records or b""
    return len(records) > ATTRIBUTES_AT and bool(records[ATTRIBUTES_AT] & TRANSACTIONAL)


def _pass_usual(handle: Handler, guarded: Handler) -> Handler:
    """Return a handler without other checks for one topic that is known to be writable."""

    def choose(services: _Services, context: RequestContext, request: ProduceRequest) -> Any:
        topics, access = request.topic_data, context.access
        if context.api_version >= FIRST_BY_ID and len(topics) == 1:
            name_topic(services.metadata.image, topics[0])
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
    TopicProduceResponse,
    lambda data, code: PartitionProduceResponse(data.index, code, -1),
    "partition_data",
    has_id=True,
)
_reject = reject_topics(ProduceResponse, _reject_topic, "topic_data")


def _close(_: object) -> None:
    raise ProtocolViolation("a produce with acks=0 is not authorized, and has no answer that could say so")


def _learn(
    services: _Services,
    context: RequestContext,
    frame: memoryview,
    body_at: int,
    request: ProduceRequest,
    response: ProduceResponse | None,
) -> RepeatedProduce | ProduceToSeveral | None:
    topics = request.topic_data
    if len(topics) != 1 or len(topics[0].partition_data) != 1:
        return ProduceToSeveral.learn(handle, services, context, frame, body_at, request)
    if response is None:
        return None
    return RepeatedProduce.learn(services, context, frame, body_at, request, response)


@serves(ProduceRequest, access=[_narrow], shortcut=_pass_usual, learn=_learn)
def handle(services: _Services, context: RequestContext, request: ProduceRequest) -> Answer:
    response = ProduceResponse([])
    appends = _Appends(services, context, request, response)
    topics = request.topic_data
    if len(topics) != 1 or len(topics[0].partition_data) != 1:
        return _append_each(services, context, appends, request, response)
    [topic] = topics  # as a rule: no coroutine
    [data] = topic.partition_data
    if context.api_version >= FIRST_BY_ID:
        name_topic(services.metadata.image, topic)
    answer = PartitionProduceResponse(data.index)
    appends.append(answer, topic.name, data)
    response.responses.append(TopicProduceResponse(topic.name, [answer], topic.topic_id))
    if request.acks and not appends.queued and appends.delayed is None:
        return response
    return _answer(appends, request, response)


async def _append_each(
    services: _Services, context: RequestContext, appends: _Appends, request: ProduceRequest, response: ProduceResponse
) -> ProduceResponse | None:
    if context.api_version >= FIRST_BY_ID:
        await name_topics(services.metadata.image, request.topic_data)
    appended_bytes = 0
    for topic in request.topic_data:
        answers: list[PartitionProduceResponse] = []
        response.responses.append(TopicProduceResponse(topic.name, answers, topic.topic_id))
        for data in topic.partition_data:
            answer = PartitionProduceResponse(data.index)
            answers.append(answer)
            appends.append(answer, topic.name, data)
            appended_bytes += _APPEND_COST_BYTES + len(data.records or b"")
            if appended_bytes >= _STEP_BYTES:
                appended_bytes = 0
                await give_way()
    return await settled(_answer(appends, request, response))


def _answer(appends: _Appends, request: ProduceRequest, response: ProduceResponse) -> Answer:
    if appends.rejected and (appends.queued or appends.delayed is not None):
        return appends.finish_with_rejections()
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


@attrs.define(eq=False, repr=False, init=False)
class _Appends:
    """Appends of one request: done, queued behind a conversion, or delayed until acknowledged."""

    _services: _Services
    _context: RequestContext
    _now_ms: int
    _request: ProduceRequest
    _response: ProduceResponse
    _version: int
    queued: list[Deferred[None]]
    delayed: DelayedWrite | None
    rejected: list[tuple[str, int]]
    _errors: BatchErrors

    def __init__(
        self, services: _Services, context: RequestContext, request: ProduceRequest, response: ProduceResponse
    ) -> None:  # each request pays for it: a generated one looks up the defaults
        self._services = services
        self._context = context
        self._now_ms = services.runtime.now_ms()
        self._request = request
        self._response = response
        self._version = context.api_version
        self.queued = []
        self.delayed = None
        self.rejected = []
        self._errors = BatchErrors(services, context, response)

    def append(self, answer: PartitionProduceResponse, topic: str, data: PartitionProduceData) -> None:
        services = self._services
        partition = services.partitions.led.get((topic, data.index))
        try:
            if partition is None:
                if not topic and self._version >= FIRST_BY_ID:
                    raise KafkaError(code=ErrorCode.UNKNOWN_TOPIC_ID)
                partition = services.partitions.find(topic, data.index)
            if self._context.caller.rejected_batches is not None:
                self._check_earlier(partition, data.records)
            records = checked_records(partition, data, self._request.acks, self._version)
            if not records:
                answer.base_offset = -1
                return
            checked = partition.record_check
            if checked is not None:
                self._queue(answer, partition, records, self._append_checked(partition, records, checked))
                return
            check = None
            if self._version >= FIRST_WITH_V2 and records[ATTRIBUTES_AT] & TRANSACTIONAL:
                coordinator, check = self._verification(partition, records)
                if coordinator is not None:
                    self._queue(answer, partition, records, self._append_verified(partition, records, coordinator))
                    return
            appended = partition.append_now(records, self._now_ms, check)
            if appended is None:
                check = partial(self._check_queued, partition, records, check)
                self._queue(answer, partition, records, self._append_queued(partition, records, self._now_ms, check))
                return
        except KafkaError as error:
            if error.code in _TOO_LARGE:
                services.partitions.traffic.of(topic).rejected_bytes += len(data.records or b"")
            self._reject_batch(answer, topic, partition, data.records, error)
            self.rejected.append((topic, data.index))
        else:
            self._appended(answer, partition, records, appended)

    def _check_earlier(self, partition: Partition, records: Buffer | None) -> None:
        """Raise the error of an earlier batch of this connection, if it stands in the way of this one."""
        rejected = self._context.caller.rejected_batches
        if rejected is not None:
            rejected.check(partition, ProducerBatch.of(records))

    def _check_queued(self, partition: Partition, records: Buffer, check: Check | None) -> None:
        """Check again when a queued append is next: those before it may have been rejected."""
        self._check_earlier(partition, records)
        if check is not None:
            check()

    def _verification(self, partition: Partition, records: Buffer) -> tuple[AskedCoordinator | None, Check]:
        """Return the coordinator, if another broker is it and was asked, and the check by this broker's own."""
        transactional_id = self._request.transactional_id
        if transactional_id is None:
            raise missing_transactional_id()
        coordinator = ask_coordinator(self._services, transactional_id, partition, records, self._version)
        return coordinator, partial(verify, self._services, transactional_id, partition, records, self._version)

    async def _append_verified(self, partition: Partition, records: Buffer, coordinator: AskedCoordinator) -> Appended:
        """Append after the answer of a coordinator on another broker."""
        try:
            check = partial(
                self._check_queued, partition, records, partial(coordinator.check, await coordinator.answer())
            )
            now_ms = self._services.runtime.now_ms()
            appended = partition.append_now(records, now_ms, check)
            if appended is None:
                appended = await self._append_queued(partition, records, now_ms, check)
            return appended
        finally:
            coordinator.close()

    async def _append_checked(self, partition: Partition, records: Buffer, checked: PartitionCheck) -> Appended:
        """Append records that a schema registry accepts, in the order in which batches came."""
        await checked.lock.acquire()
        try:
            await checked.check.check(records)
            check = None
            if self._version >= FIRST_WITH_V2 and records[ATTRIBUTES_AT] & TRANSACTIONAL:
                coordinator, check = self._verification(partition, records)
                if coordinator is not None:
                    return await self._append_verified(partition, records, coordinator)
            check = partial(self._check_queued, partition, records, check)
            return await self._append_queued(partition, records, self._services.runtime.now_ms(), check)
        finally:
            checked.lock.release()

    def _append_queued(
        self, partition: Partition, records: Buffer, now_ms: int, check: Check
    ) -> Coroutine[Any, Any, Appended]:
        in_thread = self._services.runtime.in_thread
        on_error = partial(self._note_rejected, partition.topic, partition.index, partition, records)
        return partition.append_queued(records, now_ms, in_thread, check, on_error=on_error)

    def _queue(
        self,
        answer: PartitionProduceResponse,
        partition: Partition,
        records: Buffer,
        append: Coroutine[Any, Any, Appended],
    ) -> None:
        self.queued.append(ensureDeferred(self._append_later(answer, partition, records, append)))

    async def _append_later(
        self,
        answer: PartitionProduceResponse,
        partition: Partition,
        records: Buffer,
        append: Coroutine[Any, Any, Appended],
    ) -> None:
        """Append, and wait for the replicas from then on: after an election, others' records have these offsets."""
        try:
            self._appended(answer, partition, records, await append)
        except KafkaError as error:
            self._reject_batch(answer, partition.topic, partition, records, error)

    async def finish(self) -> ProduceResponse:
        try:
            async for later in over(self.queued):
                await later
        finally:
            for later in self.queued:  # without the caller, nobody asks for the others' errors
                later.addErrback(lambda _: None)
        if self.delayed is not None:
            await self.delayed.wait(self._request.timeout_ms)
        return self._response

    async def finish_with_rejections(self) -> ProduceResponse | None:
        """Wait like other requests. The answer has its place when this begins to run."""
        rejected = self._context.caller.rejected_batches
        if rejected is not None:
            rejected.await_answer(self.rejected)
        response = await self.finish()
        if self._request.acks:
            return response
        _check_unanswered_errors(response)
        return None

    async def finish_unanswered(self) -> None:
        """Hold back the connection as for answers: records in memory must not grow in number."""
        _check_unanswered_errors(await self.finish())

    def _appended(
        self, answer: PartitionProduceResponse, partition: Partition, records: Buffer, appended: Appended
    ) -> None:
        answer.base_offset = appended.base_offset
        answer.log_append_time_ms = appended.log_append_time
        answer.log_start_offset = appended.log_start_offset
        if appended.must_sync or (self._request.acks == -1 and partition.log.high_watermark <= appended.last_offset):
            self._delay(answer, partition, records, appended)

    def _delay(
        self, answer: PartitionProduceResponse, partition: Partition, records: Buffer, appended: Appended
    ) -> None:
        acks = self._request.acks
        if acks:
            if self.delayed is None:
                self.delayed = DelayedWrite(self._services.runtime.clock)
            marks = ACKS_ALL if acks == -1 else ACKS_LEADER
            head = bytes(records[:PRODUCER_HEAD_BYTES])  # the records may be large, and the wait long
            on_error = partial(self._reject_batch, answer, partition.topic, partition, head)
            self.delayed.add(partition, appended.last_offset + 1, marks, on_error)

    def _reject_batch(
        self,
        answer: PartitionProduceResponse,
        topic: str,
        partition: Partition | None,
        records: Buffer | None,
        error: KafkaError,
    ) -> None:
        """Fail a batch, and perhaps later ones of the connection with it."""
        self._errors.reject(answer, topic, partition, ProducerBatch.of(records), error)

    def _note_rejected(
        self, topic: str, index: int, partition: Partition | None, records: Buffer | None, error: KafkaError
    ) -> None:
        self._errors.note(topic, index, partition, ProducerBatch.of(records), error)


def _check_unanswered_errors(response: ProduceResponse) -> None:
    """Raise ProtocolViolation for an error with acks=0: only a closed connection makes clients refresh metadata."""
    for topic in response.responses:
        for answer in topic.partition_responses:
            if answer.error_code:
                raise ProtocolViolation(
                    f"a produce with acks=0 to {topic.name or topic.topic_id}-{answer.index} failed: "
                    f"{answer.error_message}"
                )
