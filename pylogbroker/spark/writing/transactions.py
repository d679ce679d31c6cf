"""Exactly-once micro-batches: one transaction per task, ended by the driver.

    task i     InitProducerId         fences the previous owner of this task, and aborts its transaction
               OffsetFetch            the marker: a task of a committed batch writes nothing
               records, marker        in one transaction, which is left open
    driver     OffsetCommit           the plan: number of tasks of this batch
               EndTxn, for each       commits or aborts records and marker together

A transactional id is `<prefix><query>-<i>`. The marker is a committed offset of the group of that name: the batch's
number plus 1; the plan, one of the group `<prefix><query>`.

    driver or task is killed     open transactions    when the batch is repeated
    before the driver commits    all                  all are aborted, and written again
    while the driver commits     some                 the same; committed tasks write nothing
    afterwards                   none                 no task writes anything

A task's second attempt, even a speculative one, aborts the first one's transaction. Decision 0024 gives the plan's
purpose.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import attrs

from pylogbroker.blocking.cluster import BlockingCluster
from pylogbroker.client.coordinator_requests import CoordinatorType
from pylogbroker.client.transaction_requests import (
    ADD_PARTITIONS_VERSION,
    END_TXN_VERSION,
    TRANSACTION_VERSION,
    TRANSACTIONS_V2,
    TXN_OFFSET_COMMIT_VERSION,
    Codes,
    add_partitions_request,
    offset_codes,
    partition_codes,
    raise_first,
    response_codes,
)
from pylogbroker.errors import ConfigError, ErrorCode, KafkaError, PylogbrokerError
from pylogbroker.interfaces import TopicPartition
from pylogbroker.rpc.answer_rows import sole_row
from pylogbroker.rpc.backoff import Backoff, retry_blocking
from pylogbroker.spark.writing.producer_ids import WriterIdentity
from pylogbroker.wire import Request
from pylogbroker.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from pylogbroker.wire.messages.end_txn import EndTxnRequest
from pylogbroker.wire.messages.init_producer_id import InitProducerIdRequest
from pylogbroker.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pylogbroker.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from pylogbroker.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

log = logging.getLogger(__name__)
T = TypeVar("T")

_MARKER_TOPIC: Final = "__consumer_offsets"  # exists wherever there are groups; partition 0 is used
_OFFSET_FETCH: Final = 7  # last version with a single group, first with require_stable
_OFFSET_COMMIT: Final = 4  # last with a retention time
_PLAN_RETENTION_MS: Final = 10 * 365 * 86_400_000
_MARKER_AGE_MS_MAX: Final = 86_400_000  # brokers with a short retention may expire markers by then
_ABORT_SECONDS_MAX: Final = 10.0
_TRANSIENT: Final = frozenset({ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.UNSTABLE_OFFSET_COMMIT})
_SOON: Final = Backoff(0.005, 0.1)  # transient errors pass within milliseconds
_LOST: Final = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
    }
)


class TransactionLost(PylogbrokerError):
    """A task's transaction cannot be committed: none of its records are written."""


class WrongBatch(PylogbrokerError):
    """A batch does not match earlier committed ones."""


@attrs.frozen
class Task:
    prefix: str
    query: str
    batch: int
    number: int

    @property
    def name(self) -> str:
        """Transactional id, and the marker's group."""
        return f"{self.prefix}{self.query}-{self.number}"


@attrs.frozen
class Done:
    """Open transaction of a task, or whether it was already committed."""

    task: Task
    open: WriterIdentity | None = None
    is_committed: bool = False


@attrs.frozen
class _Plan:
    """Number of tasks, and time in ms of the first commit."""

    batch: int
    tasks: int
    time: int


def begin(cluster: BlockingCluster, task: Task) -> WriterIdentity | None:
    """Return the task's identity; None if committed already."""
    identity = _identify(cluster, task.name)
    committed, _ = _marker(cluster, task.name)
    _check_order(task, committed - 1)
    return None if committed == task.batch + 1 else identity


def add_partitions(cluster: BlockingCluster, identity: WriterIdentity, partitions: Iterable[TopicPartition]) -> None:
    request = add_partitions_request(_name(identity), identity, sorted(partitions))
    _ask(
        cluster,
        request,
        CoordinatorType.TRANSACTION,
        _name(identity),
        newest=ADD_PARTITIONS_VERSION,
        codes=partition_codes,
    )


def mark(cluster: BlockingCluster, identity: WriterIdentity, task: Task) -> None:
    """Write the marker, last in the transaction."""
    if not identity.is_v2:
        added = AddOffsetsToTxnRequest(task.name, identity.id, identity.epoch, task.name)
        _ask(cluster, added, CoordinatorType.TRANSACTION, task.name)
    request = TxnOffsetCommitRequest(
        transactional_id=task.name,
        group_id=task.name,
        producer_id=identity.id,
        producer_epoch=identity.epoch,
        topics=[TxnOffsetCommitRequestTopic(_MARKER_TOPIC, [TxnOffsetCommitRequestPartition(0, task.batch + 1)])],
    )
    version = TXN_OFFSET_COMMIT_VERSION if identity.is_v2 else None
    _ask(cluster, request, CoordinatorType.GROUP, task.name, version=version, codes=offset_codes)


def commit(cluster: BlockingCluster, done: Sequence[Done]) -> None:
    """Raise WrongBatch or TransactionLost."""
    if not done:
        return
    opened = [(outcome.task, outcome.open) for outcome in done if outcome.open is not None]
    plan = _planned(cluster, done[0].task)
    if plan is not None:
        _check_count(cluster, done, plan)
        if opened and not any(outcome.is_committed for outcome in done):
            _check_age(plan)
    if opened:
        _plan(cluster, done[0].task, len(done))
    for task, identity in opened:
        with raising_lost(cluster, task):
            _end(cluster, identity, committed=True)


def abort(cluster: BlockingCluster, done: Iterable[Done]) -> None:
    """Abort open transactions for up to 10 seconds; timeouts end the others."""
    until = time.monotonic() + _ABORT_SECONDS_MAX
    opened = [outcome.open for outcome in done if outcome.open is not None]
    for number, identity in enumerate(opened):
        left = until - time.monotonic()
        if left <= 0:
            log.info("%d transactions are left to their timeouts", len(opened) - number)
            return
        abandon(cluster, identity, left)


def abandon(cluster: BlockingCluster, identity: WriterIdentity, seconds: float = _ABORT_SECONDS_MAX) -> None:
    """Abort a transaction, unless another producer owns it."""
    try:
        _end(cluster, identity, committed=False, seconds=seconds)
    except PylogbrokerError as error:
        log.info("transaction %s is left to its timeout: %s", identity.transactional_id, error)


@contextmanager
def raising_lost(cluster: BlockingCluster, task: Task) -> Iterator[None]:
    """Convert errors of a lost transaction to TransactionLost."""
    try:
        yield
    except KafkaError as error:
        if error.code in _LOST:
            raise _lost(cluster, task, error) from error
        raise


def _check_count(cluster: BlockingCluster, done: Sequence[Done], plan: _Plan) -> None:
    if plan.tasks == len(done):
        return
    task = done[0].task
    written = {outcome.task.number for outcome in done if outcome.open is not None}
    for number in sorted(set(range(plan.tasks)) - written):
        if begin(cluster, attrs.evolve(task, number=number)) is None:  # also aborts that task's open transaction
            raise WrongBatch(
                f"batch {plan.batch} was partly committed with {plan.tasks} tasks, and has {len(done)} now, so the"
                f" missing rows are unknown: run it once more with {plan.tasks} tasks, by the same source options,"
                " repartition and spark.sql.shuffle.partitions as before"
            )


def _check_age(plan: _Plan) -> None:
    if _now() - plan.time > _MARKER_AGE_MS_MAX:
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(plan.time / 1000))
        raise WrongBatch(
            f"batch {plan.batch} was about to be committed at {when} UTC, and it is unknown whether it was,"
            " since brokers forget that after offsets.retention.minutes: check if its rows are in the topic. If they"
            " are not, or may be there twice, choose another transactionalIdPrefix. If they are, mark the batch as done"
            f" in Spark: in the checkpoint's directory commits, copy the newest file as {plan.batch}"
        )


def _check_order(task: Task, batch: int) -> None:
    if batch > task.batch:
        raise WrongBatch(
            f"batch {task.batch} is to be written, but batch {batch} of this query is committed already: the checkpoint"
            " is older than the batches written from it, or another driver runs the query. To write the batch in any"
            " case, choose another transactionalIdPrefix"
        )


def _planned(cluster: BlockingCluster, task: Task) -> _Plan | None:
    planned, text = _marker(cluster, _group(task))
    _check_order(task, planned - 1)
    return _Plan(task.batch, *map(int, (text or "").split())) if planned == task.batch + 1 else None


def _plan(cluster: BlockingCluster, task: Task, tasks: int) -> None:
    row = OffsetCommitRequestPartition(0, task.batch + 1, committed_metadata=f"{tasks} {_now()}")
    topics = [OffsetCommitRequestTopic(_MARKER_TOPIC, [row])]
    request = OffsetCommitRequest(group_id=_group(task), retention_time_ms=_PLAN_RETENTION_MS, topics=topics)
    _ask(cluster, request, CoordinatorType.GROUP, _group(task), version=_OFFSET_COMMIT, codes=offset_codes)


def _end(cluster: BlockingCluster, identity: WriterIdentity, *, committed: bool, seconds: float | None = None) -> None:
    request = EndTxnRequest(_name(identity), identity.id, identity.epoch, committed)
    version = END_TXN_VERSION if identity.is_v2 else None
    _ask(cluster, request, CoordinatorType.TRANSACTION, _name(identity), version=version, seconds=seconds)


def _now() -> int:
    return time.time_ns() // 1_000_000


def _lost(cluster: BlockingCluster, task: Task, error: KafkaError) -> TransactionLost:
    timeout = cluster.settings.integer("transaction.timeout.ms")
    return TransactionLost(
        f"batch {task.batch}: the transaction of task {task.number} can no longer be committed ({error}). Another"
        f" attempt has taken its place, or the batch took longer than kafka.transaction.timeout.ms, which is {timeout}:"
        " make batches smaller, or increase it, and the brokers' transaction.max.timeout.ms with it"
    )


def _identify(cluster: BlockingCluster, name: str) -> WriterIdentity:
    timeout = cluster.settings.integer("transaction.timeout.ms")
    try:
        response = _ask(cluster, InitProducerIdRequest(name, timeout), CoordinatorType.TRANSACTION, name)
    except KafkaError as error:
        if error.code == ErrorCode.INVALID_TRANSACTION_TIMEOUT:
            why = "is longer than the brokers allow by transaction.max.timeout.ms"
            raise ConfigError(f"option kafka.transaction.timeout.ms: {timeout} {why}") from error
        raise
    coordinator = cluster.retrying(lambda: cluster.coordinator(name, CoordinatorType.TRANSACTION))
    is_v2 = coordinator.feature_level(TRANSACTION_VERSION) >= TRANSACTIONS_V2
    return WriterIdentity(response.producer_id, response.producer_epoch, name, is_v2)


def _marker(cluster: BlockingCluster, group: str) -> tuple[int, str | None]:
    """Return a group's offset and metadata, after pending transactions; -1 without an offset."""
    request = OffsetFetchRequest(group, [OffsetFetchRequestTopic(_MARKER_TOPIC, [0])], require_stable=True)
    response = _ask(cluster, request, CoordinatorType.GROUP, group, version=_OFFSET_FETCH, codes=_fetch_codes)
    row = _marker_row(response)
    return row.committed_offset, row.metadata


def _ask(
    cluster: BlockingCluster,
    request: Request,
    kind: CoordinatorType,
    key: str,
    *,
    version: int | None = None,
    newest: int | None = None,
    codes: Codes = response_codes,
    seconds: float | None = None,
) -> Any:
    """Ask the coordinator; retry for `seconds` (default: default.api.timeout.ms).

    The request has `version`, or one that both sides know, `newest` at most.
    """
    longest = cluster.settings.integer("default.api.timeout.ms") / 1000
    timeout = longest if seconds is None else min(seconds, longest)

    def ask() -> Any:
        connection = cluster.coordinator(key, kind)
        chosen = version if newest is None else min(newest, connection.version_of(type(request)))
        response = connection.ask(request, version=chosen)
        raise_first(codes(request, response), key)
        return response

    return cluster.retrying(lambda: retry_blocking(ask, _SOON, timeout, retriable=_is_transient), timeout)


def _is_transient(error: BaseException) -> bool:
    return isinstance(error, KafkaError) and error.code in _TRANSIENT


def _fetch_codes(_: object, response: Any) -> list[int]:
    return [response.error_code or _marker_row(response).error_code]


def _marker_row(response: Any) -> Any:
    return sole_row(response, "topics.partitions", "the coordinator", partition_index=0)


def _group(task: Task) -> str:
    return f"{task.prefix}{task.query}"


def _name(identity: WriterIdentity) -> str:
    return identity.transactional_id or ""
