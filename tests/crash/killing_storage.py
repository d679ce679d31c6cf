"""A remote storage whose process dies at a call that a file names: `<number of changes from now on> <when>`.

`when` is `before`, `within` or `after` the call. The plugin `killing` takes the path of the file, a bar, and the store:
`killing:/run/kill-at|directory:/archive`.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

import attrs
from twisted.plugin import IPlugin
from zope.interface import implementer

from pylogbroker.interfaces import IRemoteStorage, IRemoteStorageFactory, StoredObject
from pylogbroker.plugins import remote_storages

PLUGIN: Final = "from tests.crash.killing_storage import killing\n"
"""Text of the plugin module."""

WHEN: Final = ("before", "within", "after")


@implementer(IRemoteStorage)
@attrs.define(eq=False)
class KillingStorage:
    """Changes count; reads and listings do not."""

    _store: IRemoteStorage
    _order: Path
    _left: int = 0
    _when: str = ""
    _lock: threading.Lock = attrs.field(factory=threading.Lock)

    def put(self, name: str, parts: Iterable[bytes]) -> None:
        self._change(lambda: self._store.put(name, parts), lambda: self._store.put(name, _dying_within(parts)))

    def read(self, name: str, start: int, length: int) -> bytes:
        data: bytes = self._store.read(name, start, length)
        return data

    def list(self, prefix: str) -> Iterable[StoredObject]:
        objects: Iterable[StoredObject] = self._store.list(prefix)
        return objects

    def delete(self, name: str) -> None:
        self._change(lambda: self._store.delete(name), _die)

    def _change(self, whole: Callable[[], None], part: Callable[[], None]) -> None:
        when = self._when_due()
        if when == "before":
            _die()
        if when == "within":
            part()
        whole()
        if when == "after":
            _die()

    def _when_due(self) -> str:
        """Return when to die at this change, or nothing."""
        with self._lock:
            if self._left == 0 and self._order.exists():
                number, self._when = self._order.read_text().split()
                self._order.unlink()
                self._left = int(number)
            self._left = max(self._left - 1, 0)
            if self._left == 0:
                when, self._when = self._when, ""
                return when
            return ""


def _dying_within(parts: Iterable[bytes]) -> Iterator[bytes]:
    for part in parts:
        yield part[: len(part) // 2]
        _die()


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@implementer(IPlugin, IRemoteStorageFactory)
@attrs.frozen
class KillingFactory:
    name: str = "killing"

    def make(self, argument: str) -> IRemoteStorage:
        order, _, place = argument.partition("|")
        kind, _, rest = place.partition(":")
        factories = {"directory": remote_storages.directory, "s3": remote_storages.s3}
        return KillingStorage(factories[kind].make(rest), Path(order))


killing = KillingFactory()
