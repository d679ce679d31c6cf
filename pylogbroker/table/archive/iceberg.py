"""An archive as a table of Iceberg: `iceberg://CATALOG/NAMESPACE.TABLE`.

PyIceberg finds the catalog in its own configuration, `.pyiceberg.yaml` or `PYICEBERG_CATALOG__...`. The table has the
records of all topics that name it, partitioned by topic and partition. TABLE_dead_letters has what cannot be decoded.

Properties of the table change in the commit that adds records. So a record is added once, also where the outcome of a
commit is not known. Other commits in between are no conflict.

    pylogbroker.start.TOPIC.TOPIC_ID.PARTITION      first offset that was archived
    pylogbroker.end.TOPIC.TOPIC_ID.PARTITION        end of what is archived
    pylogbroker.gaps.TOPIC.TOPIC_ID.PARTITION       offsets between that were deleted unarchived: 20-40,60-65
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Final

import attrs
import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import CommitFailedException, TableAlreadyExistsError
from pyiceberg.table import Table

from pylogbroker.table.archive.jobs import DEAD_LETTER_SCHEMA, ROWS_BYTES, SCHEMA, ArchiveJob, dead_letter_rows
from pylogbroker.table.archive.segments import UndecodedBytes
from pylogbroker.table.errors import TableError

SCHEME: Final = "iceberg://"
_ROOT: Final = re.compile(SCHEME + r"([^/]+)/([^/.]+(?:\.[^/.]+)+)")
_PROPERTIES: Final = "pylogbroker"
_DEAD_LETTERS: Final = "_dead_letters"
_COMMITS_MAX: Final = 10
_PLACE: Final = pa.schema([("topic", pa.string()), ("topic_id", pa.string()), ("partition", pa.int32())])


def catalog_of(place: str) -> tuple[Catalog, str]:
    """Return the catalog of a place, and the name of the table; raise TableError."""
    match = _ROOT.fullmatch(place)
    if match is None:
        raise TableError(f"{place} is not accepted; expected {SCHEME}CATALOG/NAMESPACE.TABLE")
    try:
        return load_catalog(match[1]), match[2]
    except Exception as error:  # of PyIceberg: a wrong configuration has many types
        raise TableError(f"the catalog {match[1]} of {place} cannot be used: {error}") from error


@attrs.frozen
class ArchivedOffsets:
    """Offsets of a partition that a table has, as its properties say."""

    start: int
    end: int
    """-1 without records."""
    gaps: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, properties: Mapping[str, str], partition: str) -> ArchivedOffsets:
        """Return those of TOPIC.TOPIC_ID.PARTITION."""
        pairs = (gap.split("-") for gap in properties.get(f"{_PROPERTIES}.gaps.{partition}", "").split(",") if gap)
        return cls(
            int(properties.get(f"{_PROPERTIES}.start.{partition}", 0)),
            int(properties.get(f"{_PROPERTIES}.end.{partition}", -1)),
            tuple((int(first), int(behind)) for first, behind in pairs),
        )

    def with_range(self, start: int, end: int) -> ArchivedOffsets:
        if self.end < 0:
            return ArchivedOffsets(start, end)
        gaps = (*self.gaps, (self.end, start)) if start > self.end else self.gaps
        return ArchivedOffsets(self.start, end, gaps)

    def properties(self, partition: str) -> dict[str, str]:
        """Return the properties of TOPIC.TOPIC_ID.PARTITION."""
        gaps = {"gaps": ",".join(f"{first}-{behind}" for first, behind in self.gaps)} if self.gaps else {}
        values = {"start": str(self.start), "end": str(self.end), **gaps}
        return {f"{_PROPERTIES}.{name}.{partition}": value for name, value in values.items()}


@attrs.frozen(eq=False, repr=False)
class IcebergTarget:
    _catalog: Catalog
    _name: str
    _job: ArchiveJob

    @classmethod
    def of(cls, job: ArchiveJob) -> IcebergTarget:
        return cls(*catalog_of(job.root), job)

    def exclusive(self) -> nullcontext[None]:
        """Do nothing: commits notice other jobs."""
        return nullcontext()

    def archived_to(self) -> int:
        return self._offsets_of(self._table(self._name, SCHEMA)).end

    def schema(self) -> pa.Schema:
        return self._table(self._name, SCHEMA).schema().as_arrow()

    @contextmanager
    def segment(self, start: int, end: int, schema: pa.Schema = SCHEMA) -> Iterator[_TableSink]:
        sink = _TableSink(self, start, end, schema)
        yield sink
        sink.commit(end)

    def append(self, rows: list[pa.RecordBatch], start: int, end: int, schema: pa.Schema = SCHEMA) -> None:
        """Add records between two offsets, which become the table's end."""
        self._append(self._table(self._name, schema), self._with_place(rows, schema), start, end)

    def append_dead_letters(self, letters: list[UndecodedBytes], end: int) -> None:
        """Add the dead letters before an offset that are not there yet."""
        table = self._table(f"{self._name}{_DEAD_LETTERS}", DEAD_LETTER_SCHEMA)
        there = self._offsets_of(table).end
        missing = [letter for letter in letters if _place_of(letter, end) >= there]
        if missing:
            rows = self._with_place([dead_letter_rows(missing)], DEAD_LETTER_SCHEMA)
            self._append(table, rows, max(there, 0), end)

    def _append(self, table: Table, rows: pa.Table, start: int, end: int) -> None:
        for _ in range(_COMMITS_MAX):
            there = self._offsets_of(table)
            if there.end > start:
                raise TableError(
                    f"{self._job.root} has {self._job.topic}/{self._job.partition} up to offset {there.end}, after"
                    f" {start}: another broker archives the same records"
                )
            try:
                with table.transaction() as transaction:
                    if rows.num_rows:
                        transaction.append(rows)
                    transaction.set_properties(there.with_range(start, end).properties(self._partition))
            except CommitFailedException:
                table = table.refresh()
            else:
                return
        raise TableError(f"{self._job.root} changes too often: {_COMMITS_MAX} commits failed")

    def _with_place(self, rows: list[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
        table = pa.Table.from_batches(rows, schema)
        place: tuple[Any, ...] = (self._job.topic, self._job.topic_id, self._job.partition)
        arrays = [
            pa.repeat(pa.scalar(value, field.type), table.num_rows) for field, value in zip(_PLACE, place, strict=True)
        ]
        return pa.Table.from_arrays([*arrays, *table.columns], schema=_with_fields(schema))

    @property
    def _partition(self) -> str:
        return f"{self._job.topic}.{self._job.topic_id}.{self._job.partition}"

    def _offsets_of(self, table: Table) -> ArchivedOffsets:
        return ArchivedOffsets.of(table.properties, self._partition)

    def _table(self, name: str, schema: pa.Schema) -> Table:
        """Return a table with at least the columns of a schema."""
        if self._catalog.table_exists(name):
            return _with_columns(self._catalog.load_table(name), _with_fields(schema))
        self._catalog.create_namespace_if_not_exists(name.rpartition(".")[0])
        try:
            with (
                self._catalog.create_table_transaction(name, schema=_with_fields(schema)) as transaction,
                transaction.update_spec() as spec,
            ):
                spec.add_identity("topic")
                spec.add_identity("partition")
        except TableAlreadyExistsError:  # of a broker that was faster
            pass
        return self._catalog.load_table(name)


@attrs.define(eq=False, repr=False)
class _TableSink:
    """Rows and dead letters of a segment, committed some megabytes at a time."""

    _target: IcebergTarget
    _start: int
    _end: int
    _schema: pa.Schema
    _rows: list[pa.RecordBatch] = attrs.field(factory=list, init=False)
    _letters: list[UndecodedBytes] = attrs.field(factory=list, init=False)
    _pending_bytes: int = attrs.field(default=0, init=False)

    def add(self, rows: pa.RecordBatch) -> None:
        if self._pending_bytes >= ROWS_BYTES and rows.num_rows:
            self.commit(rows.column("offset")[0].as_py())
        self._rows.append(rows)
        self._pending_bytes += rows.nbytes

    def add_dead_letters(self, letters: Sequence[UndecodedBytes]) -> None:
        self._letters += [letter for letter in letters if _place_of(letter, self._end) >= self._start]

    def commit(self, end: int) -> None:
        """Commit what there is, all of it before an offset."""
        if self._letters:
            self._target.append_dead_letters(self._letters, end)
        self._target.append(self._rows, self._start, end, self._schema)
        self._rows, self._letters = [], []
        self._start, self._pending_bytes = end, 0


def _place_of(letter: UndecodedBytes, end: int) -> int:
    """Return the offset of a dead letter; without one, it is among the last ones."""
    return letter.offset if 0 <= letter.offset < end else end - 1


def _with_columns(table: Table, schema: pa.Schema) -> Table:
    """Return a table with at least the columns and members of a schema."""
    missing = [field for field in schema if not _has(table.schema().as_arrow(), field)]
    if missing:
        with table.update_schema() as update:
            update.union_by_name(pa.schema(missing))
    return table


def _has(parent: Any, field: pa.Field) -> bool:
    """Return whether a schema or struct has a field with all its members, at any depth."""
    index = parent.get_field_index(field.name)
    return index >= 0 and _has_members(parent.field(index).type, field.type)


def _has_members(kind: pa.DataType, other: pa.DataType) -> bool:
    if pa.types.is_struct(other):
        return pa.types.is_struct(kind) and all(_has(kind, field) for field in other)
    if pa.types.is_map(other):
        return pa.types.is_map(kind) and _has_members(kind.item_type, other.item_type)
    if pa.types.is_list(other) or pa.types.is_large_list(other):
        return not pa.types.is_nested(kind) or _has_members(kind.value_type, other.value_type)
    return True


def _with_fields(schema: pa.Schema) -> pa.Schema:
    return pa.schema([*_PLACE, *schema])
