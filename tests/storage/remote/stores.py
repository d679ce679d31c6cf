"""Remote storages of tests: in memory, and with crashes around their calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import attrs
from zope.interface import implementer

from pylogbroker.interfaces.remote_storage import IRemoteStorage, StoredObject


class Crash(BaseException):
    """The process has died."""


@implementer(IRemoteStorage)
@attrs.define
class MemoryStore:
    objects: dict[str, bytes] = attrs.field(factory=dict)
    calls: list[str] = attrs.field(factory=list)

    def put(self, name: str, parts: Iterable[bytes]) -> None:
        data = b"".join(parts)
        self.calls.append(f"put {name.rpartition('.')[2]}")
        self.objects[name] = data

    def read(self, name: str, start: int, length: int) -> bytes:
        self.calls.append(f"read {name.rpartition('.')[2]}")
        if name not in self.objects:
            raise FileNotFoundError(name)
        return self.objects[name][start : start + length]

    def list(self, prefix: str) -> Iterator[StoredObject]:
        self.calls.append("list")
        return iter([StoredObject(name, len(data)) for name, data in self.objects.items() if name.startswith(prefix)])

    def delete(self, name: str) -> None:
        self.calls.append(f"delete {name.rpartition('.')[2]}")
        self.objects.pop(name, None)


@implementer(IRemoteStorage)
@attrs.define
class FailingStore(MemoryStore):
    """Fails at each change from number `fails_at` on: before the change, in the middle of it, or after it.

    `error` is what a caller gets: a Crash, or an OSError of a store that is away.
    """

    fails_at: int = 1 << 30
    when: str = "before"
    error: BaseException = attrs.field(factory=Crash)
    changes: int = 0

    def put(self, name: str, parts: Iterable[bytes]) -> None:
        data = b"".join(parts)
        self._change(lambda: MemoryStore.put(self, name, [data]), lambda: self._put_part(name, data))

    def delete(self, name: str) -> None:
        self._change(lambda: MemoryStore.delete(self, name), lambda: None)

    def _put_part(self, name: str, data: bytes) -> None:
        self.objects[name] = data[: len(data) // 2]

    def _change(self, whole: object, part: object) -> None:
        number, self.changes = self.changes, self.changes + 1
        if number < self.fails_at:
            whole()  # type: ignore[operator]
            return
        if number == self.fails_at:
            if self.when == "within":
                part()  # type: ignore[operator]
            elif self.when == "after":
                whole()  # type: ignore[operator]
        raise self.error
