"""Writers that Spark calls for batches, and for micro-batches of a stream.

    driver    BatchWriter.of, StreamWriter.of     validates columns and options
    task      write                               writes its rows
    driver    commit, abort                       of a stream: ends the transactions that the tasks left open

Batches are written at least once: a failed task's rows remain when it is repeated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.taskcontext import TaskContext

from pylogbroker.blocking.cluster import BlockingCluster
from pylogbroker.client.producer_guarantees import in_flight_max, is_idempotent
from pylogbroker.errors import ConfigError
from pylogbroker.features import on_first_use
from pylogbroker.spark.garbage import freeze_existing_objects
from pylogbroker.spark.options import WriteOptions
from pylogbroker.spark.options.raw import log_warnings
from pylogbroker.spark.writing.columns import Fields, fields_of
from pylogbroker.spark.writing.producer_ids import WriterIdentity, identify
from pylogbroker.spark.writing.transactions import (
    Done,
    Task,
    abandon,
    abort,
    add_partitions,
    begin,
    commit,
    mark,
    raising_lost,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from pylogbroker.spark.writing import producer as sink_producer
    from pylogbroker.spark.writing import task as sink_task
else:
    sink_producer = on_first_use("pylogbroker.spark.writing.producer")
    sink_task = on_first_use("pylogbroker.spark.writing.task")

_QUERY: Final = "sql.streaming.queryId"
_BATCH: Final = "streaming.sql.batchId"


@attrs.frozen
class TaskDone(WriterCommitMessage):
    done: Done | None = None


class BatchWriter(DataSourceArrowWriter):
    """Append rows, at least once."""

    def __init__(self, given: Mapping[str, str], fields: Fields) -> None:
        self._given = dict(given)
        self._fields = fields

    @classmethod
    def of(cls, given: Mapping[str, str], schema: StructType, overwrite: bool) -> BatchWriter:
        if overwrite:
            raise ConfigError('a topic cannot be overwritten: write with mode("append")')
        options = WriteOptions.parse(given)
        _check(options)
        return cls(given, _fields(schema, options))

    def reach(self) -> None:
        """Raise NoBrokers if no broker can be reached. Called in the driver: tasks would wait longer."""
        with BlockingCluster(WriteOptions.parse(self._given).settings) as cluster:
            cluster.reach()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskDone:
        _write_plainly(WriteOptions.parse(self._given), self._fields, iterator)
        return TaskDone()


class StreamWriter(DataSourceStreamArrowWriter):
    """Append micro-batches' rows, exactly once or (option exactlyOnce=false) at least once."""

    def __init__(self, given: Mapping[str, str], fields: Fields) -> None:
        self._given = dict(given)
        self._fields = fields

    @classmethod
    def of(cls, given: Mapping[str, str], schema: StructType, overwrite: bool) -> StreamWriter:
        """Output mode complete (`overwrite`) appends, too."""
        options = WriteOptions.parse(given)
        _check(options)
        if options.exactly_once and not is_idempotent(options.settings):
            raise ConfigError(
                "options kafka.acks and kafka.enable.idempotence: transactions need acks=all and idempotence; remove"
                " them, or set the option exactlyOnce to false"
            )
        return cls(given, _fields(schema, options))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskDone:
        options = WriteOptions.parse(self._given)
        if not options.exactly_once:
            _write_plainly(options, self._fields, iterator)
            return TaskDone()
        return TaskDone(_write_once(options, self._fields, _this_task(options), iterator))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        done = _done(messages)
        if done:
            with BlockingCluster(WriteOptions.parse(self._given).settings) as cluster:
                commit(cluster, done)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Abort the transactions, after a task has failed for good."""
        done = _done(messages)
        if done:
            with BlockingCluster(WriteOptions.parse(self._given).settings) as cluster:
                abort(cluster, done)


def _check(options: WriteOptions) -> None:
    log_warnings(options.warnings)
    in_flight_max(options.settings)


def _fields(schema: StructType, options: WriteOptions) -> Fields:
    return fields_of([(field.name, field.dataType.simpleString()) for field in schema.fields], options.topic)


def _write_plainly(options: WriteOptions, fields: Fields, batches: Iterator[pa.RecordBatch]) -> None:
    first = _first(batches)
    if first is None:
        return
    with BlockingCluster(options.settings) as cluster:
        _write_as(identify(cluster), cluster, options, fields, _again(first, batches))


def _write_once(options: WriteOptions, fields: Fields, task: Task, batches: Iterator[pa.RecordBatch]) -> Done:
    first = _first(batches)
    if first is None:
        return Done(task)
    with BlockingCluster(options.settings) as cluster:
        identity = begin(cluster, task)
        if identity is None:
            for _ in batches:  # Spark reuses a worker only if its input is consumed
                pass
            return Done(task, is_committed=True)
        try:
            with raising_lost(cluster, task):
                _write_as(identity, cluster, options, fields, _again(first, batches))
                mark(cluster, identity, task)
        except BaseException:
            abandon(cluster, identity)
            raise
        return Done(task, identity)


def _write_as(
    identity: WriterIdentity,
    cluster: BlockingCluster,
    options: WriteOptions,
    fields: Fields,
    batches: Iterator[pa.RecordBatch],
) -> None:
    """Write rows. Only tasks import Arrow: the driver restarts for each micro-batch."""
    adds = identity.transactional_id is not None and not identity.is_v2
    add = partial(add_partitions, cluster, identity) if adds else None
    with sink_producer.IdempotentProducer(cluster, identity, add) as producer:
        sink_task.TaskWriter(options, fields, cluster, producer).write(batches)
    freeze_existing_objects()


def _this_task(options: WriteOptions) -> Task:
    context = TaskContext.get()
    if context is not None:
        query, batch = context.getLocalProperty(_QUERY), context.getLocalProperty(_BATCH)
        if query is not None and batch is not None:
            return Task(options.transactional_id_prefix, query, int(batch), context.partitionId())
    raise ConfigError("this is not a task of a stream that Spark runs; set the option exactlyOnce to false")


def _done(messages: list[WriterCommitMessage | None]) -> list[Done]:
    return [message.done for message in messages if isinstance(message, TaskDone) and message.done is not None]


def _first(batches: Iterator[pa.RecordBatch]) -> pa.RecordBatch | None:
    return next((batch for batch in batches if batch.num_rows), None)


def _again(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest
