"""Columns of decoded keys and values in an archive, beside their bytes: key_decoded, value_decoded.

| contents                             | column                                                             |
|--------------------------------------|--------------------------------------------------------------------|
| first ones                           | a struct with the fields of all schemas that they name             |
| with fields that are new             | the struct has these, too; they are null in older files            |
| with a field of another type         | the field keeps its type; values that it cannot have are a failure |
| failure, such as a deleted schema    | null, and a dead letter with the reason, the bytes and the schema  |

Integers have 64 bits, and floats are doubles, so that fields may become wider. Times have microseconds, which all
readers of Parquet know: further digits are in the bytes alone.
"""

from __future__ import annotations

from typing import Any, Final, cast

import attrs
import pyarrow as pa

from pylogbroker.errors import ConfigError
from pylogbroker.schemas.framing import Field, frame_of
from pylogbroker.table.archive.jobs import SCHEMA, ArchiveJob
from pylogbroker.table.archive.segments import UndecodedBytes
from pylogbroker.table.columns import DECODED
from pylogbroker.table.contents import Failures, SampledForm, reason_text
from pylogbroker.table.forms import form_of
from pylogbroker.table.json_types import completed, struct_of

_SUFFIX: Final = "_decoded"
_UINT64: Final = pa.decimal128(20, 0)


@attrs.frozen(eq=False, repr=False)
class CollectedFailures(Failures):
    """Contents that cannot be decoded are null; their reasons are kept."""

    reasons: dict[int, str] = attrs.field(factory=dict)

    def note(self, index: int, reason: object, cause: BaseException | None = None) -> None:
        self.reasons.setdefault(index, reason_text(reason))


@attrs.define(eq=False, repr=False)
class SegmentDecoding:
    """Decodes the keys and values of a log: `learn` sees all rows of a segment, then `begin`, then `decoded`."""

    _job: ArchiveJob
    _forms: dict[str, SampledForm]
    _types: dict[str, pa.DataType] = attrs.field(factory=dict, init=False)

    @classmethod
    def of(cls, job: ArchiveJob) -> SegmentDecoding | None:
        """Return the decoding of a job, None without any; raise ConfigError."""
        registry = {name: value for name, value in job.decoding.items() if name not in DECODED}
        forms = {
            name: cast(SampledForm, form_of(name, job.decoding[name], None, registry))
            for name in DECODED
            if name in job.decoding
        }
        if not_sampled := [name for name, form in forms.items() if not form.is_sampled]:
            raise ConfigError(f"{not_sampled[0]}={job.decoding[not_sampled[0]]} has no schema: it is archived as bytes")
        return cls(job, forms) if forms else None

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of the segment's rows."""
        return pa.schema([*SCHEMA, *((name + _SUFFIX, kind) for name, kind in self._types.items())])

    def learn(self, rows: pa.RecordBatch) -> None:
        for name, form in self._forms.items():
            form.learn(rows.column(name), rows.column("headers"))

    def begin(self, before: pa.Schema) -> None:
        """Choose the types of a segment's columns, given the columns of the archive up to now."""
        for name, form in self._forms.items():
            index = before.get_field_index(name + _SUFFIX)
            earlier = pa.null() if index < 0 else before.field(index).type
            kind = extended(archived_type(earlier), archived_type(form.learned))
            if not pa.types.is_null(kind):
                self._types[name] = completed(kind)

    def decoded(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, list[UndecodedBytes]]:
        """Return rows with their decoded columns, and what cannot be decoded."""
        columns = list(rows.columns)
        letters: list[UndecodedBytes] = []
        for name, kind in self._types.items():
            failures = CollectedFailures("null", name, self._job.topic, self._job.partition, rows.column("offset"))
            columns.append(self._forms[name].decoded_as(kind, rows.column(name), rows.column("headers"), failures))
            letters += [_letter(rows, name, index, reason) for index, reason in sorted(failures.reasons.items())]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema), letters


def _letter(rows: pa.RecordBatch, name: str, index: int, reason: str) -> UndecodedBytes:
    content = rows.column(name)[index].as_py()
    headers = rows.column("headers")[index].as_py() or ()
    pairs = [(header["key"], header["value"]) for header in headers]
    frame = frame_of(content, pairs, cast(Field, name))
    offset = rows.column("offset")[index].as_py()
    return UndecodedBytes(offset, None, reason, content, name, None if frame is None else str(frame.schema))


def archived_type(kind: pa.DataType) -> pa.DataType:
    """Return the type that an archive has for values of a type."""
    types: Any = pa.types
    if types.is_struct(kind):
        return pa.struct([(field.name, archived_type(field.type)) for field in kind])
    if types.is_map(kind):
        return pa.map_(pa.string(), archived_type(kind.item_type))
    if types.is_list(kind) or types.is_large_list(kind):
        return pa.list_(archived_type(kind.value_type))
    if types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz and "UTC")
    return next((archived for matches, archived in _ARCHIVED if matches(kind)), kind)


_ARCHIVED: Final = (
    (pa.types.is_uint64, _UINT64),
    (pa.types.is_integer, pa.int64()),
    (pa.types.is_floating, pa.float64()),
    (pa.types.is_large_string, pa.string()),
    (pa.types.is_large_binary, pa.binary()),
    (pa.types.is_time, pa.time64("us")),
)


def extended(kind: pa.DataType, other: pa.DataType) -> pa.DataType:
    """Return a type with the members that another one has, too; what it has keeps its type."""
    if pa.types.is_null(kind):
        return other
    if pa.types.is_struct(kind) and pa.types.is_struct(other):
        members = {field.name: field.type for field in kind}
        for field in other:
            members[field.name] = extended(members.get(field.name, pa.null()), field.type)
        with_all = struct_of(members)
        return with_all if pa.types.is_struct(with_all) else kind
    if pa.types.is_map(kind) and pa.types.is_map(other):
        return pa.map_(pa.string(), extended(kind.item_type, other.item_type))
    if pa.types.is_list(kind) and pa.types.is_list(other):
        return pa.list_(extended(kind.value_type, other.value_type))
    return kind
