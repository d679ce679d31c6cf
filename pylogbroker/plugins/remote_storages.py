"""The built-in remote storages.

name         place, after a colon
directory    path of a directory, such as a mounted file system that all brokers see: `directory:/mnt/archive`
s3           bucket and prefix of an S3-like store: `s3://bucket/prefix?region=eu-central-1`

Options of `s3` are those of `pyarrow.fs.S3FileSystem`: `region`, `endpoint_override=host:port`, `scheme=http`. Keys are
no part of the setting, which clients may read. They are searched in Amazon's usual places: the environment
(`AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`), `~/.aws`, and the role of the machine.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, urlsplit

import attrs
from twisted.plugin import IPlugin
from zope.interface import implementer

from pylogbroker.extras import required_by
from pylogbroker.features import on_first_use
from pylogbroker.interfaces.remote_storage import IRemoteStorage, IRemoteStorageFactory, StoredObject

if TYPE_CHECKING:
    from pylogbroker import s3_storage
else:
    s3_storage = on_first_use("pylogbroker.s3_storage")

_TEMPORARY: Final = ".tmp"
_NAME: Final = re.compile(r"(?!.*//)(?!.*\.\./)[a-zA-Z0-9][a-zA-Z0-9_./-]*")


@implementer(IRemoteStorage)
@attrs.frozen
class DirectoryStorage:
    """Objects as files. A file gets its name when all of it is on the disk.

    After a crash, the listing has the part that was written, with `.tmp` behind its name: the next leader deletes it.
    """

    root: str

    def put(self, name: str, parts: Iterable[bytes]) -> None:
        path = self._path(name)
        self._make_directory(os.path.dirname(path))
        temporary = path + _TEMPORARY
        try:
            with open(temporary, "wb") as file:
                for part in parts:
                    file.write(part)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
        _sync(os.path.dirname(path))

    def read(self, name: str, start: int, length: int) -> bytes:
        with open(self._path(name), "rb") as file:
            file.seek(start)
            return file.read(length)

    def list(self, prefix: str) -> Iterator[StoredObject]:
        self._check_root()
        for directory, _, files in os.walk(self._path(prefix), onerror=_raise_unless_missing):
            above = os.path.relpath(directory, self.root)
            for file in files:
                try:
                    size = os.stat(f"{directory}/{file}").st_size
                except FileNotFoundError:  # deleted since
                    continue
                yield StoredObject(f"{above}/{file}", size)

    def delete(self, name: str) -> None:
        self._check_root()
        path = self._path(name)
        for deleted in (path, path + _TEMPORARY):
            with suppress(FileNotFoundError):
                os.unlink(deleted)
        directory = os.path.dirname(path)
        with suppress(OSError):  # not empty, or gone
            while directory != self.root:
                os.rmdir(directory)
                directory = os.path.dirname(directory)
        with suppress(FileNotFoundError):
            _sync(directory)

    def _path(self, name: str) -> str:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name of an object")
        return os.path.normpath(f"{self.root}/{name}")

    def _check_root(self) -> None:
        """Raise OSError if the file system is not mounted: it is no empty store."""
        os.stat(self.root)

    def _make_directory(self, path: str) -> None:
        """Make a directory below the root, with names that survive a crash. The root itself must be there."""
        if path == self.root:
            self._check_root()
            return
        try:
            os.mkdir(path)
        except FileExistsError:
            return
        except FileNotFoundError:
            self._make_directory(os.path.dirname(path))
            with suppress(FileExistsError):
                os.mkdir(path)
        _sync(os.path.dirname(path))


def _sync(directory: str) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _raise_unless_missing(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


@implementer(IPlugin, IRemoteStorageFactory)
@attrs.frozen
class DirectoryFactory:
    name: str = "directory"

    def make(self, argument: str) -> IRemoteStorage:
        if not os.path.isabs(argument):
            raise ValueError("expected the absolute path of a directory after the colon: directory:/mnt/archive")
        return DirectoryStorage(os.path.normpath(argument))


@implementer(IPlugin, IRemoteStorageFactory)
@attrs.frozen
class S3Factory:
    name: str = "s3"

    def make(self, argument: str) -> IRemoteStorage:
        parts = urlsplit(f"s3:{argument}")
        root = f"{parts.netloc}{parts.path}".rstrip("/")
        if not parts.netloc or "@" in parts.netloc:
            raise ValueError("expected a bucket and a prefix after the colon: s3://bucket/prefix")
        with required_by("a remote storage in S3", "s3"):
            make = s3_storage.S3Storage.of
        return make(root, dict(parse_qsl(parts.query)))


directory = DirectoryFactory()
s3 = S3Factory()
