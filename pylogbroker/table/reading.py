"""Bounded reads of a topic as Arrow: a table, or a stream of record batches.

read_table      reads all, then infers types from all, then decodes
read_batches    infers types from a sample at both ends of each partition, then reads and decodes as it is consumed
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs
import pyarrow as pa

from pylogbroker.config import Values
from pylogbroker.errors import ConfigError
from pylogbroker.features import on_first_use
from pylogbroker.table.bounds import Bound, ReadRange
from pylogbroker.table.columns import DECODED, ColumnSelection, column_of, decoder_columns
from pylogbroker.table.contents import ON_ERROR, ContentForm, Failures, OnError
from pylogbroker.table.forms import form_of
from pylogbroker.table.topic_source import RawRows, ReadPlan, TopicSource, settings_of

if TYPE_CHECKING:
    from pylogbroker.table.archive import archives
    from pylogbroker.table.archive import source as archive_source
    from pylogbroker.table.archive.archives import ReadableArchive
else:
    archives = on_first_use("pylogbroker.table.archive.archives")
    archive_source = on_first_use("pylogbroker.table.archive.source")

_SAMPLE_RECORDS: Final = 20_000


@attrs.frozen(eq=False, repr=False)
class ContentForms:
    """Forms of keys and values."""

    forms: Mapping[str, ContentForm]
    on_error: OnError

    @property
    def needs_headers(self) -> bool:
        return any(form.needs_headers for form in self.forms.values())

    @property
    def sampled(self) -> dict[str, ContentForm]:
        return {name: form for name, form in self.forms.items() if form.is_sampled}

    def learn(self, raw: RawRows) -> None:
        for name, form in self.sampled.items():
            form.learn(raw.rows.column(name), _headers(raw, form))

    def decoded(self, topic: str, raw: RawRows) -> dict[str, pa.Array]:
        if not self.forms:
            return {}
        offsets = raw.rows.column("offset")
        return {
            name: form.decoded(
                raw.rows.column(name),
                _headers(raw, form),
                Failures(self.on_error, name, topic, raw.partition, offsets),
            )
            for name, form in self.forms.items()
        }


def _headers(raw: RawRows, form: ContentForm) -> pa.Array | None:
    return raw.rows.column("headers") if form.needs_headers else None


@attrs.frozen(eq=False, repr=False)
class TopicScan:
    """A read whose columns and contents are chosen."""

    source: TopicSource
    selection: ColumnSelection
    contents: ContentForms

    @property
    def schema(self) -> pa.Schema:
        return self.selection.schema({name: form.type for name, form in self.contents.forms.items()})

    @property
    def raw_columns(self) -> tuple[str, ...]:
        """Columns to decode from record batches; errors about contents name offsets."""
        needed = [path[0] for path in self.selection.paths]
        if self.contents.forms:
            needed.append("offset")
        if self.contents.needs_headers:
            needed.append("headers")
        return decoder_columns(dict.fromkeys(needed))

    def of(self, selection: ColumnSelection) -> TopicScan:
        """Return a scan of some of the columns; sampled types are shared."""
        forms = {name: form for name, form in self.contents.forms.items() if selection.uses(name)}
        return TopicScan(self.source, selection, attrs.evolve(self.contents, forms=forms))

    def raw(self, plan: ReadPlan) -> Iterator[RawRows]:
        return self.source.rows(plan, self.raw_columns)

    def sample(self, plan: ReadPlan) -> None:
        """Infer types from some records of each partition, if a form needs it."""
        if not self.contents.sampled:
            return
        columns = ("offset", *self.contents.sampled, *(["headers"] if self.contents.needs_headers else []))
        for raw in self.source.rows(_sample_of(plan), columns):
            self.contents.learn(raw)

    def batch(self, raw: RawRows) -> pa.RecordBatch:
        columns = self.contents.decoded(self.source.topic, raw)
        for column, *_ in self.selection.paths:
            if column not in columns:
                columns[column] = column_of(raw.rows, column)
        return pa.RecordBatch.from_arrays(self.selection.arrays(columns), schema=self.schema)

    def batches(self, plan: ReadPlan) -> Iterator[pa.RecordBatch]:
        for raw in self.raw(plan):
            yield self.batch(raw)


def _sample_of(plan: ReadPlan) -> ReadPlan:
    """Return both ends of each partition: formats change with time."""
    ranges = [part for part in plan.ranges if len(part)]
    share = max(1, _SAMPLE_RECORDS // (2 * max(1, len(ranges))))
    parts: list[ReadRange] = []
    for part in ranges:
        if len(part) <= 2 * share:
            parts.append(part)
        else:
            parts += [attrs.evolve(part, end=part.start + share), attrs.evolve(part, start=part.end - share)]
    return attrs.evolve(plan, ranges=tuple(parts))


def read_table(
    topic: str,
    *,
    bootstrap_servers: str | Sequence[str],
    start: Bound = "earliest",
    end: Bound = "latest",
    partitions: Iterable[int] | None = None,
    columns: Sequence[str] | None = None,
    key: str = "binary",
    value: str = "binary",
    key_schema: object = None,
    value_schema: object = None,
    schema_registry: str | Mapping[str, str] | None = None,
    on_error: OnError = "raise",
    committed: bool = True,
    archive: str | os.PathLike[str] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> pa.Table:
    """Return the records of a topic between two bounds, in the order of partitions and offsets.

    `table.bounds` has the bounds, `table.columns` the columns, and `table.contents` the forms of keys and values. A
    schema of JSON is one of pyarrow. `schema_registry` is a URL, or settings `schema.registry.*`. Contents that cannot
    be decoded raise UndecodableRecord, or are null with `on_error="null"`. Records of transactions that are open or
    aborted are left out, unless `committed` is false. `archive` is the directory or table of the delete policy
    `archive-parquet`, which is read before the log (`archive.archives`). `settings` are those of a consumer, such as
    credentials.
    """
    source = source_of(settings_of(bootstrap_servers, settings or {}, committed=committed), topic, archive)
    scan = scan_of(source, columns, (key, value), (key_schema, value_schema), schema_registry, on_error)
    plan = source.plan(partitions, start, end)
    if not scan.contents.sampled:
        return pa.Table.from_batches(scan.batches(plan), scan.schema)
    parts = []
    for raw in scan.raw(plan):
        scan.contents.learn(raw)
        parts.append(raw)
    parts.reverse()
    batches, schema = [], scan.schema
    while parts:
        batches.append(scan.batch(parts.pop()))
    return pa.Table.from_batches(batches, schema)


def read_batches(
    topic: str,
    *,
    bootstrap_servers: str | Sequence[str],
    start: Bound = "earliest",
    end: Bound = "latest",
    partitions: Iterable[int] | None = None,
    columns: Sequence[str] | None = None,
    key: str = "binary",
    value: str = "binary",
    key_schema: object = None,
    value_schema: object = None,
    schema_registry: str | Mapping[str, str] | None = None,
    on_error: OnError = "raise",
    committed: bool = True,
    archive: str | os.PathLike[str] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> pa.RecordBatchReader:
    """Return a stream of the record batches of `read_table`; it holds some megabytes at a time.

    Types that are inferred are those of a sample, 20,000 records at the beginnings and ends of the partitions. A later
    record with other members is an error: give a schema.
    """
    source = source_of(settings_of(bootstrap_servers, settings or {}, committed=committed), topic, archive)
    scan = scan_of(source, columns, (key, value), (key_schema, value_schema), schema_registry, on_error)
    plan = source.plan(partitions, start, end)
    scan.sample(plan)
    return pa.RecordBatchReader.from_batches(scan.schema, scan.batches(plan))


def source_of(settings: Values, topic: str, archive: str | os.PathLike[str] | ReadableArchive | None) -> TopicSource:
    """Return the topic with its archive, if one is named; raise ConfigError or TableError."""
    if archive is None:
        return TopicSource(settings, topic)
    opened = archives.open_archive(archive) if isinstance(archive, str | os.PathLike) else archive
    return archive_source.ArchivedTopicSource(settings, topic, opened)


def scan_of(
    source: TopicSource,
    columns: Sequence[str] | None,
    forms: tuple[str, str],
    schemas: tuple[object, object],
    schema_registry: str | Mapping[str, str] | None,
    on_error: OnError,
) -> TopicScan:
    """Return the scan that a user asks for; raise ConfigError."""
    if on_error not in ON_ERROR:
        raise ConfigError(f"on_error: {on_error!r} is not accepted; expected {' or '.join(map(repr, ON_ERROR))}")
    selection = ColumnSelection.of(columns)
    chosen: dict[str, ContentForm] = {}
    for field, form, schema in zip(DECODED, forms, schemas, strict=True):
        made = form_of(field, form, schema, schema_registry)
        if selection.uses(field):
            chosen[field] = made
    return TopicScan(source, selection, ContentForms(chosen, on_error))
