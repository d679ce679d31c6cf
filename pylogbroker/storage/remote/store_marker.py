"""Mark of a remote storage that a cluster uses: an object with the cluster's id, and files that remember it.

object in the store       file in the log directories   meaning
------------------------  ----------------------------  ------------------------------------------------------
there                     there, or written now         the store of this cluster
missing, written now      missing, written now          a new store, or one that a new broker sees first
missing                   there                         another place, or a file system that is not mounted

An empty directory is what a mount point shows without its file system. Without the mark, an empty store would be taken
for an archive that was deleted, and a copy would fill the wrong disk.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from hashlib import sha256
from typing import Final

import attrs

from pylogbroker.storage.files import read_file, replace_file
from pylogbroker.storage.remote.checked_store import CheckedStore, MissingObject, StoreFailure

FILE: Final = "archive-mark"
_PREFIX: Final = "clusters/"
_PLAIN: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_BYTES_MAX: Final = 100


@attrs.define(eq=False, repr=False)
class StoreMarker:
    """Mark of one cluster. Worker threads call it; all methods block."""

    _store: CheckedStore
    _cluster_id: str
    _directories: Callable[[], Iterable[str]]
    """Log directories that work."""
    _is_remembered: bool = attrs.field(default=False, init=False)

    @property
    def name(self) -> str:
        """Name of the object."""
        plain = self._cluster_id
        return _PREFIX + (plain if _PLAIN.fullmatch(plain) else sha256(plain.encode()).hexdigest())

    def check(self) -> None:
        """Raise StoreFailure if this is not the store that was used before. Mark a new one."""
        try:
            self._store.read(self.name, 0, _BYTES_MAX)
        except MissingObject:
            if self._remembers():
                raise StoreFailure(
                    f"it is empty, or another one than before: it lacks the object {self.name}, which this cluster "
                    "keeps there. Check remote.log.storage, and that its file system is mounted. To use an empty store "
                    "from now on, put an object with this name there"
                ) from None
            self._store.put(self.name, [self._cluster_id.encode()])
        self._remember()

    def _remembers(self) -> bool:
        return self._is_remembered or any(self._has_file(path) for path in self._directories())

    def _remember(self) -> None:
        """Write the files. If a disk is full, say, they are written at the next check."""
        if self._is_remembered:
            return
        with suppress(OSError):
            for path in self._directories():
                if not self._has_file(path):
                    replace_file(f"{path}/{FILE}", self._cluster_id.encode())
            self._is_remembered = True

    def _has_file(self, path: str) -> bool:
        """Return whether a log directory remembers a store of this cluster. Its own failure is not noted here."""
        with suppress(OSError):
            return read_file(f"{path}/{FILE}") == self._cluster_id.encode()
        return False
