"""Target directory of a load: a path, or any URI that `pyarrow.fs` opens.

|                | a path, file:///...                       | s3://, gs://, hdfs://, ...                          |
|----------------|-------------------------------------------|-----------------------------------------------------|
| a new file     | written to a temporary name, fsynced,     | written to a temporary name, then moved. Object     |
|                | renamed, and the directory fsynced: it    | stores copy it: it appears when the copy is         |
|                | appears complete or not at all            | complete. HDFS renames it                           |
| the manifest   | the same, replacing the old one           | overwritten; object stores replace it as a whole    |
|                |                                           | when it is closed                                   |
| only one load  | a lock on `.lock`, which ends with the    | no lock: the manifest's revision is checked before  |
| at a time      | process that holds it                     | it is written, and before anything is deleted. Of   |
|                |                                           | two loads at once one fails; its published files    |
|                |                                           | are recovered by the other load, or the next        |

A URI may contain credentials, and Arrow's options, such as `?region=` and `?endpoint_override=`: only for tasks,
neither messages nor Spark. Spark opens files itself: its scheme for `s3` is `s3a`.
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
_REQUESTS_MAX: Final = 16
T = TypeVar("T")
R = TypeVar("R")


class TargetInUse(PylogbrokerError):
    """Another load is writing into the directory."""


@attrs.frozen
class Store:
    """Directory; names are relative to it. Errors are OSErrors."""

    uri: str
    """Without credentials, for messages and Spark."""
    target: str
    """Path or URI for other processes."""
    root: str
    filesystem: pafs.FileSystem
    is_local: bool

    @classmethod
    def of(cls, target: str | os.PathLike[str]) -> Store:
        """Open a path or URI, which need not exist. Raise ConfigError."""
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
        return os.path.basename(self.root) or self.root

    def path(self, name: str) -> str:
        return f"{self.root}/{name}"

    def read(self, name: str) -> bytes | None:
        if self.filesystem.get_file_info(self.path(name)).type != pafs.FileType.File:
            return None
        with self.filesystem.open_input_stream(self.path(name)) as file:
            return bytes(file.read())

    def files(self, directory: str) -> dict[str, int]:
        infos = self.filesystem.get_file_info(pafs.FileSelector(self.path(directory), allow_not_found=True))
        return {info.base_name: info.size for info in infos if info.type == pafs.FileType.File}

    def listed(self, directories: Collection[str]) -> dict[str, dict[str, int]]:
        return dict(zip(directories, self.for_all(self.files, directories), strict=True))

    def for_all(self, ask: Callable[[T], R], items: Iterable[T]) -> list[R]:
        """Call `ask` for each item; in parallel if remote."""
        if self.is_local:
            return [ask(item) for item in items]
        with ThreadPoolExecutor(_REQUESTS_MAX) as threads:
            return list(threads.map(ask, items))

    def directories(self) -> list[str]:
        infos = self.filesystem.get_file_info(pafs.FileSelector(self.root, allow_not_found=True))
        return [info.base_name for info in infos if info.type == pafs.FileType.Directory]

    def create(self, name: str) -> pa.NativeFile:
        directory = os.path.dirname(self.path(name))
        if self.is_local:
            _make_directory(Path(directory))
        else:
            self.filesystem.create_dir(directory, recursive=True)
        return self.filesystem.open_output_stream(self.path(name), compression=None)

    def publish(self, file: pa.NativeFile, name: str, final: str) -> None:
        """Close a file; durably rename it."""
        file.close()
        if not self.is_local:
            self.filesystem.move(self.path(name), self.path(final))
            return
        _sync(self.path(name))
        os.replace(self.path(name), self.path(final))
        _sync(os.path.dirname(self.path(final)))

    def write(self, name: str, contents: bytes) -> None:
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
        with suppress(FileNotFoundError):
            self.filesystem.delete_file(self.path(name))

    def delete_directory(self, name: str) -> None:
        if self.filesystem.get_file_info(self.path(name)).type == pafs.FileType.Directory:
            self.filesystem.delete_dir(self.path(name))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the directory; raise TargetInUse if it is locked."""
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
                raise TargetInUse(f"{self.root} is in use by a load in {who}: wait until it is done") from None
            file.truncate(0)
            file.write(f"process {os.getpid()} on {socket.gethostname()}".encode())
            file.flush()
            yield


def temporary_name(stem: str, run: str, attempt: str) -> str:
    return f".{stem}.{run}.{attempt}{_SUFFIX}"


def is_temporary(name: str) -> bool:
    return name.startswith(".") and name.endswith(_SUFFIX)


def _make_directory(path: Path) -> None:
    new = [ancestor for ancestor in (path, *path.parents) if not ancestor.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for directory in new:
        _sync(directory.parent)


def _sync(path: str | Path) -> None:
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
