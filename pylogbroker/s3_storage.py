"""Remote storage in a bucket of S3, or of a store with its protocol, by `pyarrow.fs`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

import attrs
from pyarrow import fs as pafs
from zope.interface import implementer

from pylogbroker.interfaces.remote_storage import IRemoteStorage, StoredObject

_OPTIONS: Final = ("region", "endpoint_override", "scheme")
_CONNECT_SECONDS: Final = 5.0
_REQUEST_SECONDS: Final = 30.0


@implementer(IRemoteStorage)
@attrs.frozen(eq=False, repr=False)
class S3Storage:
    """Objects of a bucket, whose names begin with `root`: the bucket and a prefix."""

    _filesystem: pafs.FileSystem
    root: str

    @classmethod
    def of(cls, root: str, options: Mapping[str, str]) -> S3Storage:
        """Raise ValueError for options that pyarrow does not accept."""
        for name in options:
            if name not in _OPTIONS:
                raise ValueError(f"{name} is no option; expected any of {', '.join(_OPTIONS)}")
        values: dict[str, Any] = dict(options)
        try:
            filesystem = pafs.S3FileSystem(
                connect_timeout=_CONNECT_SECONDS, request_timeout=_REQUEST_SECONDS, background_writes=False, **values
            )
        except (OSError, ValueError, TypeError) as error:
            raise ValueError(f"pyarrow cannot open it: {error}") from error
        return cls(filesystem, root)

    def put(self, name: str, parts: Iterable[bytes]) -> None:
        with self._filesystem.open_output_stream(f"{self.root}/{name}", compression=None) as stream:
            for part in parts:
                stream.write(part)

    def read(self, name: str, start: int, length: int) -> bytes:
        with self._filesystem.open_input_file(f"{self.root}/{name}") as file:
            return bytes(file.read_at(length, start)) if start < file.size() else b""

    def list(self, prefix: str) -> Iterator[StoredObject]:
        selector = pafs.FileSelector(f"{self.root}/{prefix}".rstrip("/"), recursive=True, allow_not_found=True)
        for info in self._filesystem.get_file_info(selector):
            if info.type == pafs.FileType.File:
                yield StoredObject(info.path[len(self.root) + 1 :], info.size)

    def delete(self, name: str) -> None:
        with suppress(FileNotFoundError):
            self._filesystem.delete_file(f"{self.root}/{name}")
