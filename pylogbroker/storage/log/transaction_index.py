"""Transaction index of a segment: the aborted transactions whose markers it holds, in Kafka's layout.

```
entry of 34 bytes, big-endian, last offsets strictly increasing
    0  2  version               0
    2  8  producer id
   10  8  first offset          of the transaction's first batch, perhaps in an earlier segment
   18  8  last offset           of its marker
   26  8  last stable offset    of the log after the marker: transactions of later entries begin at or after it
```

The file exists only with entries. New ones stay in memory until there are 1024, or the segment is sealed. Recovery
rebuilds the index from the recovery point on.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import suppress
from operator import attrgetter
from struct import Struct
from typing import Final, NamedTuple

from pylogbroker.errors import StorageFailure
from pylogbroker.records import Buffer, crc32c
from pylogbroker.storage.checkpoints import DamagedFile
from pylogbroker.storage.files import FileHandle, opened, read_at, read_file, truncate, write_file_at
from pylogbroker.storage.log.producer_states import EndedTransaction

_ENTRY: Final = Struct(">hqqqq")
ENTRY_SIZE: Final = _ENTRY.size
_VERSION: Final = 0
_BUFFERED_MAX: Final = 1024  # entries
_BLOCK: Final = 128  # entries
_last_offset = attrgetter("last_offset")


class AbortedTxn(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    __slots__ = ("_checksum", "_last", "_new", "_stored", "path")

    def __init__(self, path: str, stored_bytes: int) -> None:
        self.path = path
        self._stored = stored_bytes // ENTRY_SIZE  # entries
        self._new: list[AbortedTxn] = []  # buffered
        self._last: AbortedTxn | None = None  # None: no entries, or not read yet
        self._checksum: int | None = None if self._stored else 0

    def __len__(self) -> int:
        return self._stored + len(self._new)

    def note(self, ended: EndedTransaction, first_undecided: int | None) -> None:
        """Add an aborted transaction; `first_undecided` is the start of the oldest open one."""
        if not ended.committed:
            last = ended.last_offset
            stable = last + 1 if first_undecided is None else first_undecided
            with suppress(OSError):  # the entries stay buffered
                self.append(AbortedTxn(ended.producer_id, ended.first_offset, last, stable))

    def append(self, aborted: AbortedTxn) -> None:
        self._new.append(aborted)
        self._last = aborted
        self._checksum = crc32c(_ENTRY.pack(_VERSION, *aborted), self.checksum)
        if len(self._new) >= _BUFFERED_MAX:
            self.store()

    @property
    def checksum(self) -> int:
        if self._checksum is None:
            self._checksum = crc32c(read_file(self.path) or b"")
        return self._checksum

    @property
    def last_offset(self) -> int:
        """Offset of the last marker; -1 without."""
        if self._last is None and self._stored:
            [self._last] = _entries(FileHandle.open(self.path).read, self._stored - 1, 1)
        return -1 if self._last is None else self._last.last_offset

    def overlapping(self, first_offset: int, upto: int, may_wait: bool = True) -> tuple[list[AbortedTxn], bool]:
        """Return the transactions that overlap `first_offset` to `upto`, and whether they are all."""
        transactions = []
        if first_offset <= self.last_offset:
            for aborted in self._ending_from(first_offset, may_wait):
                if aborted.first_offset < upto:
                    transactions.append(aborted)
                if aborted.last_stable_offset >= upto:
                    return transactions, True
        return transactions, False

    def _ending_from(self, offset: int, may_wait: bool) -> Iterator[AbortedTxn]:
        if self._stored and not (self._new and self._new[0].last_offset <= offset):
            handle = FileHandle.open(self.path)
            read = handle.read if may_wait else handle.read_cached
            slot = bisect_left(range(self._stored), offset, key=lambda n: _entries(read, n, 1)[0].last_offset)
            while slot < self._stored:
                block = _entries(read, slot, min(_BLOCK, self._stored - slot))
                slot += len(block)
                yield from block
        yield from self._new[bisect_left(self._new, offset, key=_last_offset) :]

    def store(self) -> None:
        if self._new:
            data = b"".join(_ENTRY.pack(_VERSION, *aborted) for aborted in self._new)
            write_file_at(self.path, data, self._stored * ENTRY_SIZE)
            self._stored += len(self._new)
            self._new.clear()

    def check(self, base_offset: int, next_offset: int) -> None:
        """Raise DamagedFile if the index contradicts the segment's bounds."""
        data = read_file(self.path) or b""
        if len(data) % ENTRY_SIZE:
            raise DamagedFile(f"{self.path}: {len(data)} bytes are not a whole number of entries")
        rows = list(_ENTRY.iter_unpack(data))
        last = base_offset - 1
        for version, *fields in rows:
            aborted = AbortedTxn(*fields)
            if version != _VERSION or not _is_possible(aborted, last, next_offset):
                raise DamagedFile(f"{self.path}: {aborted} of version {version} is impossible here")
            last = aborted.last_offset
        self._stored, self._checksum = len(rows), crc32c(data)
        self._last = aborted if rows else None

    def truncate(self, offset: int) -> None:
        self.store()
        if offset <= self.last_offset:
            with opened(self.path) as fd:
                data = read_at(fd, self._stored * ENTRY_SIZE, 0)
            transactions = _decoded(data)
            keep = bisect_left(transactions, offset, key=_last_offset)
            truncate(self.path, keep * ENTRY_SIZE)
            self._stored, self._checksum = keep, crc32c(data[: keep * ENTRY_SIZE])
            self._last = transactions[keep - 1] if keep else None

    def clear(self) -> None:
        self._new.clear()
        self._stored, self._last, self._checksum = 0, None, 0
        truncate(self.path, 0)


def _is_possible(aborted: AbortedTxn, before: int, next_offset: int) -> bool:
    return (
        aborted.producer_id >= 0
        and 0 <= aborted.first_offset < aborted.last_offset
        and before < aborted.last_offset < next_offset
        and 0 <= aborted.last_stable_offset <= aborted.last_offset + 1
    )


def _entries(read: Callable[[int, int], Buffer], slot: int, count: int) -> list[AbortedTxn]:
    data = read(count * ENTRY_SIZE, slot * ENTRY_SIZE)
    if len(data) != count * ENTRY_SIZE:
        raise StorageFailure(f"a transaction index ends before its entry {slot + count}")
    return _decoded(data)


def _decoded(data: Buffer) -> list[AbortedTxn]:
    return [AbortedTxn(*fields) for _, *fields in _ENTRY.iter_unpack(data)]
