"""The directory that is loaded into: a path, or whatever `pyarrow.fs` opens by its URI.

|                | a path, file:///...                       | s3://, gs://, hdfs://, ...                          |
|----------------|-------------------------------------------|-----------------------------------------------------|
| a new file     | written under another name, fsynced,      | written under another name, then moved: object      |
|                | renamed, and the directory fsynced: it    | stores copy it, and it is there when the copy is    |
|                | is there whole or not at all              | whole; HDFS renames it                              |
| the manifest   | the same, in the place of the old one     | written over the old one, whole, when it is closed, |
|                |                                           | as object stores have it                            |
| only one load  | a lock on `.lock`, which ends with the    | no lock: the manifest's revision is looked at       |
| at a time      | process that holds it, however it ends    | before each change. Two at once may both go on      |
|                |                                           | for some seconds, and what one has done is lost     |
|                |                                           | from the manifest, until the next load finds it     |
"""

from __future__ import annotations

import fcntl
import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

import attrs
import pyarrow.fs as pafs

from pylogbroker.errors import ConfigError, PylogbrokerError

_LOCK: Final = ".lock"
_SUFFIX: Final = ".tmp"


class TargetInUse(PylogbrokerError):
    """Another load is writing into the directory."""


@attrs.frozen
class Store:
    """A directory; all names are relative to it. Errors are OSErrors."""

    uri: str
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
            return cls(f"file://{root}", root, pafs.LocalFileSystem(), True)
        try:
            filesystem, root = pafs.FileSystem.from_uri(text)
        except (ValueError, OSError) as error:
            raise ConfigError(f"target: {text!r} cannot be opened: {error}") from error
        return cls(text.rstrip("/"), root, filesystem, isinstance(filesystem, pafs.LocalFileSystem))

    @property
    def target(self) -> str:
        """By which another process opens the same."""
        return self.root if self.is_local else self.uri

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

    def directories(self) -> list[str]:
        """The names of the directories in it."""
        found = self.filesystem.get_file_info(pafs.FileSelector(self.root, allow_not_found=True))
        return [info.base_name for info in found if info.type == pafs.FileType.Directory]

    def create(self, name: str) -> BinaryIO:
        """A new file that is to be published when it is whole; Arrow's own kind of file, unless it is local."""
        if self.is_local:
            Path(self.path(name)).parent.mkdir(parents=True, exist_ok=True)
            return open(self.path(name), "wb")  # buffered: it sees to it that all is written
        self.filesystem.create_dir(os.path.dirname(self.path(name)), recursive=True)
        stream: BinaryIO = self.filesystem.open_output_stream(self.path(name))
        return stream

    def publish(self, file: BinaryIO, name: str, final: str) -> None:
        """Close a file that is whole, and give it its name, for good."""
        if not self.is_local:
            file.close()
            self.filesystem.move(self.path(name), self.path(final))
            return
        file.flush()
        os.fsync(file.fileno())
        file.close()
        os.replace(self.path(name), self.path(final))
        _sync_directory(os.path.dirname(self.path(final)))

    def write(self, name: str, contents: bytes) -> None:
        """A file with these contents, in the place of what is there."""
        if not self.is_local:
            with self.filesystem.open_output_stream(self.path(name)) as stream:
                stream.write(contents)
            return
        temporary = f".{name}{_SUFFIX}"
        with self.create(temporary) as file:
            file.write(contents)
            self.publish(file, temporary, name)

    def delete(self, name: str) -> None:
        """Delete a file that may be there."""
        if self.filesystem.get_file_info(self.path(name)).type == pafs.FileType.File:
            self.filesystem.delete_file(self.path(name))

    def delete_directory(self, name: str) -> None:
        """Delete a directory that may be there, with what is in it."""
        if self.filesystem.get_file_info(self.path(name)).type == pafs.FileType.Directory:
            self.filesystem.delete_dir(self.path(name))

    # -- one load at a time --------------------------------------------------------------------------------------

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Be the only load into the directory, as long as the context lasts; TargetInUse if there is one."""
        self.filesystem.create_dir(self.root, recursive=True)
        if not self.is_local:
            yield
            return
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


def _sync_directory(path: str) -> None:
    number = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
