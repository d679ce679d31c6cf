"""One task of a load: a part of a partition into files.

    part       |=====================================|
    existing   |==file==|                                    of an earlier attempt that ended early
    new                 |==file==|==file==|==file====|       each is published when it is complete

Published files count whatever becomes of the task, which may be repeated or run twice at once.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from pylogbroker.blocking.cluster import BlockingCluster
from pylogbroker.blocking.fetcher import PartitionFetcher
from pylogbroker.client.errors import OutOfRange
from pylogbroker.errors import CorruptRecords, ErrorCode, InvalidRecords, KafkaError
from pylogbroker.records.columnar import AbortedTransactions
from pylogbroker.spark.loading.intervals import apart, missing_in
from pylogbroker.spark.loading.manifest import ManifestEntry, Part, directory_of, path_of, range_of
from pylogbroker.spark.loading.mappings import MappingFailed, RowMapping, failing_rows, mapped
from pylogbroker.spark.loading.parquet import FileLayout, FileWriter, Footer, metadata_of, read_footer, text_of
from pylogbroker.spark.loading.store import Store, temporary_name
from pylogbroker.spark.options import ReadOptions
from pylogbroker.spark.reading.losses import DataLost
from pylogbroker.spark.reading.slices import Slice
from pylogbroker.table.decoder import TYPES, Decoder, columns_with

NO_ID: Final = str(uuid.UUID(int=0))
"""From brokers without topic ids."""


@attrs.frozen
class TaskParameters:
    given: Mapping[str, str]
    target: str
    generation: int
    topics: Mapping[str, str]
    schema: pa.Schema
    mapping: RowMapping | None
    layout: FileLayout
    run: str
    """Unique id in temporary files' names."""

    def options(self) -> ReadOptions:
        return ReadOptions.parse(self.given, streaming=False)


def load_part(parameters: TaskParameters, part: Part) -> Iterator[ManifestEntry]:
    """Load missing ranges; yield an entry for each file and gap.

    Raise DataLost, MappingFailed, and errors of reading and writing.
    """
    options = parameters.options()
    store = Store.of(parameters.target)
    names = store.files(directory_of(parameters.generation, part.slice.topic, part.slice.partition))
    there = [entry.range for entry in whole_files(store, parameters, part.slice, names)]
    with BlockingCluster(options.settings) as cluster:
        _check_topic(cluster, parameters, part.slice.topic)
        for start, end in missing_in(part.slice.start, part.slice.end, there):
            hole = attrs.evolve(part, slice=attrs.evolve(part.slice, start=start, end=end))
            yield from _PartLoad(parameters, options, store, cluster, hole, start, start).run()


def whole_files(
    store: Store, parameters: TaskParameters, where: Slice, names: Mapping[str, int], listed: Collection[str] = ()
) -> list[ManifestEntry]:
    """Return published files within a slice, apart and not `listed`; `names` are files with sizes."""
    directory = directory_of(parameters.generation, where.topic, where.partition)
    sizes = {f"{directory}/{name}": size for name, size in names.items() if _is_in(where, name)}
    footers = store.for_all(lambda path: read_footer(store, path, sizes[path]), sorted(sizes.keys() - set(listed)))
    entries = [footer.entry for footer in footers if footer is not None and _is_of(footer, parameters, where)]
    return apart(entries, (), lambda entry: entry.range)


def _is_in(where: Slice, name: str) -> bool:
    span = range_of(name)
    return span is not None and where.start <= span[0] and span[1] <= where.end


def _is_of(footer: Footer, parameters: TaskParameters, where: Slice) -> bool:
    entry = footer.entry
    if entry.key != (where.topic, where.partition) or entry.path != path_of(entry):
        return False
    is_of_log = entry.generation == parameters.generation and footer.topic_id == parameters.topics[where.topic]
    return is_of_log and footer.schema == text_of(parameters.schema)


def _check_topic(cluster: BlockingCluster, parameters: TaskParameters, topic: str) -> None:
    info = cluster.topics([topic]).get(topic)
    if info is None:
        raise DataLost(f"topic {topic} has been deleted")
    before, now = parameters.topics[topic], str(info.topic_id)
    if before != now and NO_ID not in (before, now):
        raise DataLost(f"topic {topic} has been deleted and recreated")


@attrs.define
class _PartLoad:
    _parameters: TaskParameters
    _options: ReadOptions
    _store: Store
    _cluster: BlockingCluster
    _part: Part
    _done: int
    """Earlier offsets are in published files."""
    _at: int
    """Earlier offsets are in the file being written."""
    _writer: FileWriter | None = None
    _file: pa.NativeFile | None = None
    _temporary: str = ""

    def run(self) -> Iterator[ManifestEntry]:
        try:
            while self._at < self._part.slice.end:
                try:
                    yield from self._rows()
                except KafkaError as error:
                    yield from self._skip_lost(error)
            yield from self._publish()
            if self._done < self._at:
                yield self._entry()
        finally:
            self._drop()

    def _rows(self) -> Iterator[ManifestEntry]:
        where, stall_timeout = self._part.slice, self._options.stall_timeout
        include = columns_with(headers=self._options.include_headers)
        decoder = Decoder(where.topic, where.partition, include)
        check = self._options.settings.boolean("check.crcs")
        fetcher = PartitionFetcher(
            self._cluster, where.topic, where.partition, self._at, where.end, stall_timeout=stall_timeout
        )
        for fetched in fetcher:
            aborted = None if fetched.aborted is None else AbortedTransactions(fetched.aborted)
            try:
                for part in decoder.decode(fetched.records, fetched.position, where.end, aborted, check=check):
                    self._add(part.rows, part.next_offset)
                    if self._writer is not None and self._writer.size >= self._parameters.layout.file_size:
                        yield from self._publish()
            except (CorruptRecords, InvalidRecords) as error:
                raise type(error)(f"{self._name(self._at, fetched.next_offset)}: {error}") from error
            self._at = max(self._at, min(fetched.next_offset, where.end))

    def _add(self, rows: pa.RecordBatch, next_offset: int) -> None:
        if self._part.since is not None:
            rows = _not_before(rows, self._part.since)
        if rows.num_rows and self._parameters.mapping is not None:
            rows = self._mapped(self._parameters.mapping, rows)
        if rows.num_rows:
            self._open().add(rows)
        self._at = next_offset

    def _mapped(self, mapping: RowMapping, rows: pa.RecordBatch) -> pa.RecordBatch:
        try:
            return mapped(mapping, rows, self._parameters.schema)
        except MappingFailed as error:
            few, why = failing_rows(mapping, rows, self._parameters.schema, error)
            first, last = few["offset"][0].as_py(), few["offset"][-1].as_py()
            where = f"{self._part.slice.topic}/{self._part.slice.partition}"
            offsets = f"offset {first}" if first == last else f"offsets {first} to {last}"
            raise MappingFailed(f"{where}, {offsets}: {why}") from error

    def _open(self) -> FileWriter:
        if self._writer is None:
            where = self._part.slice
            directory = directory_of(self._parameters.generation, where.topic, where.partition)
            name = temporary_name(f"{self._done:020}", self._parameters.run, uuid.uuid4().hex[:8])
            self._temporary = f"{directory}/{name}"
            self._file = self._store.create(self._temporary)
            self._writer = FileWriter(self._file, self._parameters.schema, self._parameters.layout)
        return self._writer

    def _publish(self) -> Iterator[ManifestEntry]:
        if self._writer is None or self._file is None:
            return
        entry = self._entry(records=self._writer.records)
        metadata = metadata_of(entry, self._parameters.topics[entry.topic], text_of(self._parameters.schema))
        size = self._writer.finish(metadata)
        _check_topic(self._cluster, self._parameters, entry.topic)
        path = path_of(entry)
        self._store.publish(self._file, self._temporary, path)
        self._writer = self._file = None
        self._done = self._at
        yield attrs.evolve(entry, path=path, bytes=size)

    def _skip_lost(self, error: KafkaError) -> Iterator[ManifestEntry]:
        if error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise DataLost(str(error)) from error
        if not isinstance(error, OutOfRange):
            raise error
        if self._options.fail_on_data_loss or not error.offset < error.first:
            raise DataLost(str(error)) from error
        self._at = error.offset  # earlier offsets had no rows
        yield from self._publish()
        if self._done < self._at:
            yield self._entry()
            self._done = self._at
        self._at = min(error.first, self._part.slice.end)
        yield self._entry(gap=f"the log begins at offset {error.first}")
        self._done = self._at

    def _entry(self, records: int = 0, gap: str | None = None) -> ManifestEntry:
        return ManifestEntry(
            topic=self._part.slice.topic,
            partition=self._part.slice.partition,
            start=self._done,
            end=self._at,
            generation=self._parameters.generation,
            records=records,
            since=self._part.since,
            gap=gap,
        )

    def _drop(self) -> None:
        """Delete the open file: the disk may be full."""
        if self._file is None:
            return
        file, self._file = self._file, None
        if self._writer is not None:
            self._writer.abandon()
        for close in (file.close, lambda: self._store.delete(self._temporary)):
            _quietly(close)

    def _name(self, start: int, end: int) -> str:
        return f"{self._part.slice.topic}/{self._part.slice.partition}, offsets {start} to {end}"


def _not_before(rows: pa.RecordBatch, since: int) -> pa.RecordBatch:
    """Drop rows before `since`; keep null times, which microseconds cannot express."""
    late = pc.greater_equal(rows["timestamp"], pa.scalar(since * 1000, pa.int64()).cast(TYPES["timestamp"]))
    return rows.filter(pc.fill_null(late, True))


def _quietly(action: Callable[[], object]) -> None:
    try:
        action()
    except (OSError, pa.ArrowException):
        return
