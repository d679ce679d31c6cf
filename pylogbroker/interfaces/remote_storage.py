"""Remote storage: where the sealed segments of archived topics are kept."""

# ruff: noqa: N805  (the methods of an interface have no self)

from __future__ import annotations

from collections.abc import Iterable

import attrs
from zope.interface import Attribute, Interface


@attrs.frozen
class StoredObject:
    """Object of a remote storage, as a listing has it."""

    name: str
    size: int  # bytes


class IRemoteStorage(Interface):
    """Store of named objects, such as a directory or a bucket.

    Names are made of a-z, A-Z, 0-9, `-`, `_`, `.` and `/`. All methods block; several worker threads call them at the
    same time. They raise any exception for a failure: the broker tries again later, and until then keeps its own copy.
    An object is never changed: it is written once under its name, or again with the same content.
    """

    def put(name: str, parts: Iterable[bytes]) -> None:
        """Write an object, whose content are the joined parts; return when it will survive a crash of the store.

        A failed or interrupted call may leave an incomplete object. A reader finds that out.
        """

    def read(name: str, start: int, length: int) -> bytes:
        """Return `length` bytes from `start` on, fewer at the end of the object.

        Raise FileNotFoundError if there is no such object.
        """

    def list(prefix: str) -> Iterable[StoredObject]:
        """Yield all objects whose names begin with `prefix`, which ends with `/`, in any order.

        An object that was written before the call must be there.
        """

    def delete(name: str) -> None:
        """Delete an object; do nothing if there is none."""


class IRemoteStorageFactory(Interface):
    """Plugin factory of remote storages. The setting `remote.log.storage` names one.

    Define an instance, which also provides `twisted.plugin.IPlugin`, in a plugin module (see `pylogbroker.plugins`).
    """

    name: str = Attribute("The name used in settings, made of a-z, 0-9 and -; unique among remote storages.")

    def make(argument: str) -> IRemoteStorage:
        """Return the storage that `argument` names: the text after the name and a colon in the setting.

        Raise ValueError for an invalid argument; its text ends the sentence "... is not accepted; ". Called once, in a
        worker thread, at the start of the broker. A store that cannot be reached at that time is not an error.
        """
