"""Room on the disk that is the embedded tree's alone, so that who has filled it up may still delete topics, and start.

| while        | what is held                 | what for                                                           |
|--------------|------------------------------|--------------------------------------------------------------------|
| it is open   | the WAL, enlarged with zeros | transactions; SQLite begins it anew when all of it is checkpointed |
| always       | free pages in the database   | checkpoints that find more in the WAL than pages in the file       |
| it is closed | `coordination.reserve`       | the WAL, which SQLite removes when it closes the file              |

Where a file system cannot set room aside, or has less to spare, the tree does with that.  Blocking.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

T = TypeVar("T")
RESERVE_NAME: Final = "coordination.reserve"
_SHARED_BYTES: Final = 1 << 15  # the file that SQLite's connections share, made and removed with the WAL
_RESERVE_BYTES: Final = 1 << 20
_WAL_BYTES: Final = _RESERVE_BYTES - _SHARED_BYTES
_FREE_BYTES: Final = 1 << 18
_CHECKPOINT_PAGES: Final = 100  # in the WAL, then they go to the database: well below what is set aside for either
_PRIMARY_CODE: Final = 0xFF  # of SQLite's error codes, which have details above that


def is_full(error: sqlite3.Error) -> bool:
    """Whether an error says that the disk is full."""
    return getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE == sqlite3.SQLITE_FULL


def with_room(writer: sqlite3.Connection, write: Callable[[], T]) -> T:
    """What `write` returns, which is one transaction; if there is no room, it is tried again from the WAL's begin."""
    try:
        return write()
    except sqlite3.Error as error:
        if not is_full(error):
            raise
    with suppress(sqlite3.Error):
        writer.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
    return write()


def release(directory: str) -> None:
    """Before the database is opened: give back what was held for that."""
    with suppress(OSError):
        os.unlink(os.path.join(directory, RESERVE_NAME))


def hold(path: str, writer: sqlite3.Connection) -> None:
    """Now that the database at `path` is open and has a WAL: set room aside in both."""
    writer.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
    _enlarge(_wal(path), _WAL_BYTES)
    with suppress(sqlite3.Error):
        _have_free_pages(writer)


def hold_for_next(directory: str, path: str) -> None:
    """Now that the database is closed: set aside what it takes to open it, unless its WAL is still there."""
    if not os.path.exists(_wal(path)):
        _enlarge(os.path.join(directory, RESERVE_NAME), _RESERVE_BYTES, os.O_CREAT)


def _wal(path: str) -> str:
    return f"{path}-wal"


def _enlarge(path: str, size: int, flags: int = 0) -> None:
    """Give a file blocks for that many bytes, or for as many as there are."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC | flags, 0o644)
    except OSError:
        return
    while size > 0:
        with suppress(OSError):
            os.posix_fallocate(file, 0, size)
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
