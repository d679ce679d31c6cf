"""A remote storage whose failures are one kind of error, and whose results are checked: it may be third-party code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeVar

import attrs

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.interfaces.remote_storage import IRemoteStorage, StoredObject

OBJECTS_MAX: Final = 2_000_000
"""Objects in one listing: those of the segments that a partition may have, and as many tombstones."""

T = TypeVar("T")


class StoreFailure(KafkaError):
    """The remote storage cannot be reached, is full, or answers with an error."""

    code = ErrorCode.KAFKA_STORAGE_ERROR


class MissingObject(StoreFailure):
    """The remote storage does not have an object that is read."""


@attrs.define(eq=False, repr=False)
class Requests:
    """Counts of requests of one kind; a lost count of two threads at once is accepted."""

    count: int = 0
    errors: int = 0
    bytes: int = 0


@attrs.frozen(eq=False, repr=False)
class CheckedStore:
    """Calls a store; its failures are StoreFailure. All methods block; several threads may call them."""

    _store: IRemoteStorage
    puts: Requests = attrs.field(factory=Requests, init=False)
    reads: Requests = attrs.field(factory=Requests, init=False)
    lists: Requests = attrs.field(factory=Requests, init=False)
    deletions: Requests = attrs.field(factory=Requests, init=False)

    def put(self, name: str, parts: Iterable[bytes]) -> None:
        """Write an object. An exception of `parts` is raised as it is: the store did not fail."""
        of_parts: list[Exception] = []

        def counted() -> Iterator[bytes]:
            try:
                for part in parts:
                    self.puts.bytes += len(part)
                    yield part
            except Exception as error:
                of_parts.append(error)
                raise

        try:
            self._call(self.puts, "writing", name, lambda: self._store.put(name, counted()))
        except StoreFailure:
            if of_parts:
                raise of_parts[0] from None
            raise

    def read(self, name: str, start: int, length: int) -> bytes:
        try:
            data = self._call(self.reads, "reading", name, lambda: self._store.read(name, start, length))
        except StoreFailure as failure:
            if isinstance(failure.__cause__, FileNotFoundError):
                raise MissingObject(failure.detail) from failure.__cause__
            raise
        if not isinstance(data, bytes) or len(data) > length:
            self.reads.errors += 1
            raise StoreFailure(f"reading {name}: the remote storage returned {type(data).__name__} of a wrong length")
        self.reads.bytes += len(data)
        return data

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Yield objects without the prefix in their names."""
        objects = self._call(self.lists, "listing", prefix, lambda: self._listed(prefix))
        while (listed := self._next(prefix, objects)) is not None:
            yield listed

    def _next(self, prefix: str, objects: Iterator[StoredObject]) -> StoredObject | None:
        try:
            return next(objects, None)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            self.lists.errors += 1
            raise StoreFailure(f"listing {prefix}: {_reason(error)}") from error

    def _listed(self, prefix: str) -> Iterator[StoredObject]:
        for number, listed in enumerate(self._store.list(prefix)):
            if number == OBJECTS_MAX:
                raise ValueError(f"there are more than {OBJECTS_MAX} objects")
            name, size = listed.name, listed.size
            if type(name) is not str or type(size) is not int or not name.startswith(prefix):
                raise ValueError(f"{listed!r} is no object of this prefix")
            yield StoredObject(name[len(prefix) :], size)

    def delete(self, name: str) -> None:
        self._call(self.deletions, "deleting", name, lambda: self._store.delete(name))

    def _call(self, requests: Requests, doing: str, name: str, call: Callable[[], T]) -> T:
        requests.count += 1
        try:
            return call()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # also SystemExit: a plugin must not stop the broker
            requests.errors += 1
            raise StoreFailure(f"{doing} {name}: {_reason(error)}") from error


def _reason(error: BaseException) -> Any:
    text = " ".join(str(error).split())
    return text[:500] if text else type(error).__name__
