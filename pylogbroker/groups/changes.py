"""Writes the changes of groups that brokers assign, of KIP-848 and share groups, to `__consumer_offsets`.

A group is in memory what it will be in the log: its changes are appended in order, and answered when they are stored.
Changes that were not stored are written again with the next ones. So the log and memory differ by the changes of failed
appends alone, which no answer has mentioned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Generic, Protocol, TypeVar

import attrs

from pylogbroker.coordinators import APPEND_ERRORS, LazyRecords, RecordWriter, record
from pylogbroker.errors import ErrorCode
from pylogbroker.groups.assigned_group import AssignedGroup, RecordKey
from pylogbroker.records import Record
from pylogbroker.wire import WireMessage
from pylogbroker.wire.versioned_messages import encode

_ERRORS: Final[Mapping[ErrorCode, ErrorCode]] = {
    **APPEND_ERRORS,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""Errors of a member's request by the append's error."""

_BATCH_WEIGHT_MAX: Final = 300_000
"""About the most bytes of a batch. A large group's changes are several: each prefix of them is a valid group."""
_ELEMENT_BYTES: Final = 20
"""About the bytes of a list's elements, such as assigned partitions, that are encoded as fast as one record."""
_VALUE_VERSION: Final = 0

Stored = Callable[[ErrorCode, int], None]
MakeValue = Callable[[], WireMessage | None]
"""Makes a value of the state at the time of the change, in any thread; None for a tombstone."""

G = TypeVar("G", bound=AssignedGroup[Any, Any])


class RecordForms(Protocol):
    """Keys and values of the records of one type of group."""

    def encode_key(self, kind: Any, group_id: str, name: str, /) -> bytes: ...
    def value(self, group: Any, kind: Any, name: str, /) -> tuple[MakeValue, int]:
        """Return a function that makes a value, and about how many bytes it has."""

    def other_keys(self, group_id: str, /) -> Iterable[bytes]:
        """Return keys of records that only other brokers write; they are removed with the group."""


@attrs.define(eq=False, repr=False)
class _Append:
    changes: tuple[RecordKey, ...]
    waiting: list[Stored] = attrs.field(factory=list)


@attrs.define(eq=False, repr=False)
class GroupChanges(Generic[G]):
    _writer: RecordWriter
    _forms: RecordForms
    _appends: dict[G, list[_Append]] = attrs.field(factory=dict, init=False)  # on their way

    def store(self, group: G, now_ms: int, stored: Stored) -> None:
        """Write what has changed; call `stored` when that, and all earlier changes, are stored."""
        for batch, weight in self._batches(group, group.take_changes()):
            self._append(group, batch, weight, now_ms)
        under_way = self._appends.get(group)
        if under_way:
            under_way[-1].waiting.append(stored)
        else:
            stored(ErrorCode.NONE, now_ms)

    def _append(self, group: G, batch: dict[RecordKey, MakeValue], weight: int, now_ms: int) -> None:
        append = _Append(tuple(batch))
        self._appends.setdefault(group, []).append(append)
        group_id, encode_key = group.group_id, self._forms.encode_key

        def encode_records() -> Iterator[Record]:
            for (kind, name), make in batch.items():
                value = make()
                key = encode_key(kind, group_id, name)
                yield record(key, None if value is None else encode(value, _VALUE_VERSION), now_ms)

        def done(error: ErrorCode, done_ms: int) -> None:
            self._done(group, append, error, done_ms)

        records = LazyRecords(len(batch), encode_records, elements=weight // _ELEMENT_BYTES)
        self._writer.append(group.partition, records, now_ms, done, _ERRORS)

    def _done(self, group: G, append: _Append, error: ErrorCode, now_ms: int) -> None:
        appends = self._appends[group]
        appends.remove(append)
        if not appends:
            del self._appends[group]
        if error:
            group.put_back(append.changes)
        for stored in append.waiting:
            stored(error, now_ms)

    def write_tombstones(self, group: G, now_ms: int) -> None:
        """Remove all records of a group without members; as in `GroupRecordWriter.write_tombstones`."""
        group.note_all()
        keys = list(group.take_changes())
        group_id, forms = group.group_id, self._forms
        other_keys = tuple(forms.other_keys(group_id))

        def encode_records() -> Iterator[Record]:
            for key in other_keys:
                yield record(key, None, now_ms)
            for kind, name in keys:
                yield record(forms.encode_key(kind, group_id, name), None, now_ms)

        self._writer.append_unreplicated(group.partition, LazyRecords(len(keys) + len(other_keys), encode_records))

    def _batches(self, group: G, changes: Iterable[RecordKey]) -> Iterator[tuple[dict[RecordKey, MakeValue], int]]:
        """Yield batches, and about how many bytes each has."""
        batch: dict[RecordKey, MakeValue] = {}
        weight = 0
        for change in changes:
            value, size = self._forms.value(group, *change)
            if batch and weight + size > _BATCH_WEIGHT_MAX:
                yield batch, weight
                batch, weight = {}, 0
            batch[change] = value
            weight += size
        if batch:
            yield batch, weight
