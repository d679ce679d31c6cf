"""Temporary directory of a test broker's data, in memory where there is a file system for that."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

_MEMORY: Final = Path("/dev/shm")
_FREE_BYTES_MIN: Final = 1 << 30


def temporary_directory() -> TemporaryDirectory[str]:
    """Return a directory that is removed by `cleanup`, or when the program ends."""
    return TemporaryDirectory(prefix="pylogbroker-", dir=_parent(), ignore_cleanup_errors=True)


def _parent() -> Path | None:
    """Return the directory for it: in memory, a sync costs nothing. None is the system's default, or TMPDIR."""
    if "TMPDIR" in os.environ or not os.access(_MEMORY, os.W_OK):
        return None
    return _MEMORY if shutil.disk_usage(_MEMORY).free >= _FREE_BYTES_MIN else None
