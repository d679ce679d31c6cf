"""Messages with a version prefix, as coordinators store them in their topics.

0  2  version int16
2     the message in that version
"""

from __future__ import annotations

from struct import Struct
from typing import Any, Final, TypeVar

from pylogbroker.errors import CorruptRecords
from pylogbroker.wire import Buffer, MessageCodec, WireError, WireMessage

_VERSION: Final = Struct(">h")
_CODECS: Final[dict[tuple[type[WireMessage], int], MessageCodec[Any]]] = {}
M = TypeVar("M", bound=WireMessage)


def encode(message: WireMessage, version: int) -> bytes:
    return _VERSION.pack(version) + _codec(type(message), version).encode(message)


def decode(kind: type[M], buffer: Buffer) -> M:
    """Decode a message in any version; raise CorruptRecords if it is invalid."""
    version = version_of(buffer)
    if version not in kind.versions:
        raise CorruptRecords(f"version {version} of {kind.__name__} is not known")
    try:
        message: M = _codec(kind, version).decode(buffer, _VERSION.size)
    except WireError as problem:
        raise CorruptRecords(str(problem)) from None
    return message


def version_of(buffer: Buffer) -> int:
    """Raise CorruptRecords if there is none."""
    if len(buffer) < _VERSION.size:
        raise CorruptRecords(f"{len(buffer)} bytes are too few for a version")
    version: int = _VERSION.unpack_from(buffer)[0]
    return version


def _codec(kind: type[WireMessage], version: int) -> MessageCodec[Any]:
    codec = _CODECS.get((kind, version))
    if codec is None:
        codec = _CODECS[kind, version] = MessageCodec(kind, version)
    return codec
