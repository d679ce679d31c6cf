"""Disk reserve of the embedded tree: on a full disk, topics can be deleted and the broker can start.

| while the tree is | reserve                      | used for                                                          |
|-------------------|------------------------------|-------------------------------------------------------------------|
| open              | the WAL, enlarged with zeros | transactions; SQLite overwrites it once all of it is checkpointed |
| open or closed    | free pages in the database   | checkpoints that move more pages from the WAL than the file has   |
| closed            | `coordination.reserve`       | the next WAL; SQLite removes the WAL when it closes the file      |

If the file system cannot preallocate, or has less space, the reserve is smaller. All functions block.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

from pylogbroker.system import allocate

T = TypeVar("T")
RESERVE_NAME: Final = "coordination.reserve"
_SHARED_BYTES: Final = 1 << 15  # file of SQLite's connections, created and removed with the WAL
_RESERVE_BYTES: Final = 1 << 20
_WAL_BYTES: Final = _RESERVE_BYTES - _SHARED_BYTES
_FREE_BYTES: Final = 1 << 18
_CHECKPOINT_PAGES: Final = 100  # WAL pages that start a checkpoint: well below either reserve
_PRIMARY_CODE: Final = 0xFF  # higher bits have details


def is_full(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE == sqlite3.SQLITE_FULL


def with_reserve(writer: sqlite3.Connection, write: Callable[[], T]) -> T:
    """Run `write`, one transaction; on a full disk, restart the WAL and repeat it."""
    try:
        return write()
    except sqlite3.Error as error:
        if not is_full(error):
            raise
    with suppress(sqlite3.Error):
        writer.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
    return write()


def release(directory: str) -> None:
    """Remove the reserve file; call this before the database is opened."""
    with suppress(OSError):
        os.unlink(os.path.join(directory, RESERVE_NAME))


def hold(path: str, writer: sqlite3.Connection) -> None:
    """Reserve space in the open database at `path` and in its WAL."""
    writer.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
    _enlarge(_wal(path), _WAL_BYTES)
    with suppress(sqlite3.Error):
        _have_free_pages(writer)


def hold_for_next(directory: str, path: str) -> None:
    """Create a closed database's reserve file, unless its WAL exists."""
    if not os.path.exists(_wal(path)):
        _enlarge(os.path.join(directory, RESERVE_NAME), _RESERVE_BYTES, os.O_CREAT)


def _wal(path: str) -> str:
    return f"{path}-wal"


def _enlarge(path: str, size: int, flags: int = 0) -> None:
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC | flags, 0o644)
    except OSError:
        return
    while size > 0:
        with suppress(OSError):
            allocate(file, size)
            break
        size -= _SHARED_BYTES
    os.close(file)


def _have_free_pages(writer: sqlite3.Connection) -> None:
    ((free,),) = writer.execute("PRAGMA freelist_count").fetchall()
    ((page_size,),) = writer.execute("PRAGMA page_size").fetchall()
    if free * page_size < _FREE_BYTES // 2:
        writer.executescript(
            f"BEGIN; CREATE TABLE filler (x); INSERT INTO filler VALUES (zeroblob({_FREE_BYTES})); "
            "DROP TABLE filler; COMMIT"
        )
    writer.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
