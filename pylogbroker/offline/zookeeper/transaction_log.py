"""`log.<zxid>`: the transactions of a ZooKeeper server from `<zxid>` on.

```
header        "ZKLG", int32 version 2, int64 database id
transaction   int64 Adler-32 of the entry, buffer entry, "B"; zeros follow the last one
entry         int64 client, int32 cxid, int64 zxid, int64 time, int32 type, the type's fields, perhaps more
```
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final

from pylogbroker.offline.zookeeper.errors import BadFile, malformed_as_bad_file
from pylogbroker.tree.jute import Reader

MAGIC: Final = b"ZKLG"
_VERSION: Final = 2
_END: Final = b"B"
_ERROR, _MULTI = -1, 14
_CREATES: Final = (1, 15, 19, 21)  # create, create2, createContainer, createTTL
_DELETES: Final = (2, 20)
_SETS: Final = (5, 16)

Change = tuple[str, bytes | None]
"""Path and new data; None if deleted."""


def read_transactions(data: bytes, after: int) -> Iterator[tuple[int, list[Change]]]:
    """Yield the zxid and changes of each transaction after `after`.

    Raise BadFile after the last complete one, if anything but zeros follows.
    """
    if not data.startswith(MAGIC):
        raise BadFile("not a transaction log of ZooKeeper")
    with malformed_as_bad_file():
        yield from _read(Reader(data, len(MAGIC)), after)


def _read(reader: Reader, after: int) -> Iterator[tuple[int, list[Change]]]:
    if (version := reader.integer()) != _VERSION:
        raise BadFile(f"version {version} of ZooKeeper's transaction logs is not supported")
    reader.long()
    while any(reader.data[reader.position : reader.position + 12]):
        start = reader.position
        checksum, entry = reader.long(), reader.buffer() or b""
        if reader.take(len(_END)) != _END or checksum != zlib.adler32(entry):
            raise BadFile(f"the transaction at byte {start} is damaged")
        header = Reader(entry)
        header.take(12)
        zxid = header.long()
        header.take(8)
        if zxid > after:
            yield zxid, list(_changes(header.integer(), header))


def _changes(kind: int, reader: Reader) -> Iterator[Change]:
    if kind in _CREATES or kind in _SETS:
        yield reader.string(), reader.buffer() or b""
    elif kind in _DELETES:
        yield reader.string(), None
    elif kind == _MULTI:
        parts = reader.vector(lambda: (reader.integer(), reader.buffer() or b""))
        if all(part != _ERROR for part, _ in parts):
            for part, content in parts:
                yield from _changes(part, Reader(content))
