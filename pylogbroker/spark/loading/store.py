"""The directory that is loaded into: a path, or whatever `pyarrow.fs` opens by its URI.

|                | a path, file:///...                       | s3://, gs://, hdfs://, ...                          |
|----------------|-------------------------------------------|-----------------------------------------------------|
| a new file     | written under another name, fsynced,      | written under another name, then moved: object      |
|                | renamed, and the directory fsynced: it    | stores copy it, and it is there when the copy is    |
|                | is there whole or not at all              | whole; HDFS renames it                              |
| the manifest   | the same, in the place of the old one     | written over the old one, whole, when it is closed, |
|                |                                           | as object stores have it                            |
| only one load  | a lock on `.lock`, which ends with the    | no lock: before the manifest is written, and before |
| at a time      | process that holds it, however it ends    | anything is deleted, its revision is looked at. Of  |
|                |                                           | two at once one fails, and what it had finished is  |
|                |                                           | taken up by the other, or by the next               |

A URI may have a user and a password in it, and options of Arrow's, such as `?region=` and `?endpoint_override=`.  Tasks
get it as it is; what people and Spark see is without these.  `s3a` is another word for `s3`, and the one that Spark,
which opens the files by itself, has to be told.
"""

from __future__ import annotations

import fcntl
import os
import re
import socket
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import unquote, urlsplit

import attrs
import pyarrow as pa
import pyarrow.fs as pafs

from pylogbroker.errors import ConfigError, PylogbrokerError

_LOCK: Final = ".lock"
_SUFFIX: Final = ".tmp"
_TOGETHER: Final = 16  # questions to a store that is far away, at once
T = TypeVar("T")
R = TypeVar("R")


class TargetInUse(PylogbrokerError):
    """Another load is writing into the directory."""


@attrs.frozen
class Store:
    """A directory; all names are relative to it. Errors are OSErrors."""

    uri: str
    """For people, and for Spark."""
    target: str
    """By which another process opens the same."""
    root: str
    filesystem: pafs.FileSystem
    is_local: bool

    @classmethod
    def of(cls, target: str | os.PathLike[str]) -> Store:
        """The directory of that path or URI, which need not be there yet."""
        text = os.fspath(target)
        if not text.strip():
            raise ConfigError("target: it is empty; expected a directory's path or URI")
        if not re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", text):
            root = str(Path(text).absolute())
            return cls(f"file://{root}", root, root, pafs.LocalFileSystem(), True)
        parts = urlsplit(text)
        scheme = "s3a" if parts.scheme == "s3" else parts.scheme
        uri = f"{scheme}://{parts.netloc.rpartition('@')[2]}{unquote(parts.path)}".rstrip("/")
        try:
            filesystem, root = pafs.FileSystem.from_uri(re.sub("^s3a:", "s3:", text))
        except (ValueError, OSError) as error:
            raise ConfigError(f"target: {uri!r} cannot be opened: {error}") from error
        if isinstance(filesystem, pafs.LocalFileSystem):
            return cls.of(root)
        return cls(uri, text, root.rstrip("/"), filesystem, False)

    @property
    def name(self) -> str:
        """A short name for people."""
        return os.path.basename(self.root) or self.root

    def path(self, name: str) -> str:
        """As the file system calls it."""
        return f"{self.root}/{name}"

    # -- files ---------------------------------------------------------------------------------------------------

    def read(self, name: str) -> bytes | None:
        """A file's contents; None if there is no such file."""
        if self.filesystem.get_file_info(self.path(name)).type != pafs.FileType.File:
            return None
        with self.filesystem.open_input_stream(self.path(name)) as file:
            return bytes(file.read())

    def files(self, directory: str) -> dict[str, int]:
        """The names of a directory's files and their sizes; none if there is no such directory."""
        found = self.filesystem.get_file_info(pafs.FileSelector(self.path(directory), allow_not_found=True))
        return {info.base_name: info.size for info in found if info.type == pafs.FileType.File}

    def listed(self, directories: Collection[str]) -> dict[str, dict[str, int]]:
        """The same of several directories."""
        return dict(zip(directories, self.each(self.files, directories), strict=True))

    def each(self, ask: Callable[[T], R], items: Iterable[T]) -> list[R]:
        """The answers to a question about each item; at once, where each of them is a way to go."""
        if self.is_local:
            return [ask(item) for item in items]
        with ThreadPoolExecutor(_TOGETHER) as threads:
            return list(threads.map(ask, items))

    def directories(self) -> list[str]:
        """The names of the directories in it."""
        found = self.filesystem.get_file_info(pafs.FileSelector(self.root, allow_not_found=True))
        return [info.base_name for info in found if info.type == pafs.FileType.Directory]

    def create(self, name: str) -> pa.NativeFile:
        """A new file that is to be published when it is whole."""
        directory = os.path.dirname(self.path(name))
        if self.is_local:
            _make_directory(Path(directory))
        else:
            self.filesystem.create_dir(directory, recursive=True)
        return self.filesystem.open_output_stream(self.path(name), compression=None)

    def publish(self, file: pa.NativeFile, name: str, final: str) -> None:
        """Close a file that is whole, and give it its name, for good."""
        file.close()
        if not self.is_local:
            self.filesystem.move(self.path(name), self.path(final))
            return
        _sync(self.path(name))
        os.replace(self.path(name), self.path(final))
        _sync(os.path.dirname(self.path(final)))

    def write(self, name: str, contents: bytes) -> None:
        """A file with these contents, in the place of what is there."""
        if not self.is_local:
            with self.filesystem.open_output_stream(self.path(name)) as stream:
                stream.write(contents)
            return
        temporary = f".{name}{_SUFFIX}"
        try:
            with self.create(temporary) as file:
                file.write(contents)
                self.publish(file, temporary, name)
        except OSError:
            Path(self.path(temporary)).unlink(missing_ok=True)
            raise

    def delete(self, name: str) -> None:
        """Delete a file that may be there."""
        with suppress(FileNotFoundError):
            self.filesystem.delete_file(self.path(name))

    def delete_directory(self, name: str) -> None:
        """Delete a directory that may be there, with what is in it."""
        if self.filesystem.get_file_info(self.path(name)).type == pafs.FileType.Directory:
            self.filesystem.delete_dir(self.path(name))

    # -- one load at a time --------------------------------------------------------------------------------------

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Be the only load into the directory, as long as the context lasts; TargetInUse if there is one."""
        if self.filesystem.get_file_info(self.root).type == pafs.FileType.File:
            raise ConfigError(f"target: {self.uri} is a file; expected a directory")
        if not self.is_local:
            self.filesystem.create_dir(self.root, recursive=True)
            yield
            return
        _make_directory(Path(self.root))
        with open(self.path(_LOCK), "a+b") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                who = file.read().decode("utf-8", "replace").strip() or "another process"
                raise TargetInUse(f"{self.root} is being loaded into by {who}: wait until it is done") from None
            file.truncate(0)
            file.write(f"process {os.getpid()} on {socket.gethostname()}".encode())
            file.flush()
            yield


def temporary_name(stem: str, run: str, attempt: str) -> str:
    """A name for a file that is not whole; it says which load it is of."""
    return f".{stem}.{run}.{attempt}{_SUFFIX}"


def is_temporary(name: str) -> bool:
    """Whether it is such a name."""
    return name.startswith(".") and name.endswith(_SUFFIX)


def _make_directory(path: Path) -> None:
    """Make a directory, and those above it, that are there after a loss of power, too."""
    new = [each for each in (path, *path.parents) if not each.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for each in new:
        _sync(each.parent)


def _sync(path: str | Path) -> None:
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
