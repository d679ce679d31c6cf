"""`snapshot.<zxid>`: all nodes of a ZooKeeper server.

```
header     "ZKSN", int32 version 2, int64 database id
sessions   count, and for each: int64 id, int32 timeout
ACLs       count, and for each: int64 number, list of ACLs
nodes      for each: text path (empty for the root), buffer data, int64 ACL, 60 bytes of stat; the path "/" ends them
checksum   int64 Adler-32 of all before it, text "/"; newer servers append more
```

Nodes change while a server writes a snapshot: it is consistent only with the transactions after `<zxid>`.
"""

from __future__ import annotations

import gzip
import zlib
from typing import Final

from pylogbroker.offline.zookeeper.errors import BadFile, malformed_as_bad_file
from pylogbroker.tree.jute import Reader

MAGIC: Final = b"ZKSN"
_GZIP: Final = b"\x1f\x8b"
_VERSION: Final = 2
_SESSION_BYTES: Final = 8 + 4
_STAT_BYTES: Final = 6 * 8 + 3 * 4


def is_snapshot(start: bytes) -> bool:
    """Return whether a file begins like a snapshot, perhaps compressed."""
    return start.startswith((MAGIC, _GZIP))


def read_snapshot(data: bytes) -> dict[str, bytes]:
    """Raise BadFile if the snapshot is damaged."""
    if data.startswith(_GZIP):
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise BadFile(f"cannot be decompressed: {error}") from error
    if not data.startswith(MAGIC):
        raise BadFile("not a snapshot of ZooKeeper")
    with malformed_as_bad_file():
        return _read_uncompressed(data)


def _read_uncompressed(data: bytes) -> dict[str, bytes]:
    reader = Reader(data, len(MAGIC))
    if (version := reader.integer()) != _VERSION:
        raise BadFile(f"version {version} of ZooKeeper's snapshots is not supported")
    reader.long()
    reader.vector(lambda: reader.take(_SESSION_BYTES))
    for _ in range(reader.integer()):
        reader.long()
        reader.vector(lambda: (reader.integer(), reader.buffer(), reader.buffer()))
    nodes = _read_nodes(reader)
    end = reader.position
    if reader.long() != zlib.adler32(data[:end]):
        raise BadFile("the checksum is wrong")
    return nodes


def _read_nodes(reader: Reader) -> dict[str, bytes]:
    nodes: dict[str, bytes] = {}
    while (path := reader.string()) != "/":
        nodes[path or "/"] = reader.buffer() or b""
        reader.take(8 + _STAT_BYTES)
    return nodes
