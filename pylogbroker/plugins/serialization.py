"""The built-in encoders and decoders; each name has both.

name     in a program                      in a message
bytes    bytes, bytearray or memoryview    the bytes unchanged
utf-8    str                               the text in UTF-8
json     any JSON value                    a JSON text in UTF-8, without unneeded spaces

None always means a message without a value (or key), so JSON's null is possible only inside another value.
"""

from __future__ import annotations

import json
from typing import Any

import attrs
from twisted.plugin import IPlugin
from zope.interface import implementer

from pylogbroker.interfaces import IDecoder, IEncoder, INamed

_write_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


@implementer(IPlugin, INamed, IEncoder)
@attrs.frozen
class BytesEncoder:
    name: str = "bytes"

    def to_message(self, data: Any) -> bytes | None:
        if data is None or type(data) is bytes:
            return data
        if isinstance(data, bytes | bytearray | memoryview):
            return bytes(data)
        raise TypeError(f"expected bytes, got {type(data).__name__}; use the encoder utf-8 or json for other types")


@implementer(IPlugin, INamed, IDecoder)
@attrs.frozen
class BytesDecoder:
    name: str = "bytes"

    def from_message(self, data: bytes | None) -> Any:
        return data


@implementer(IPlugin, INamed, IEncoder)
@attrs.frozen
class TextEncoder:
    name: str = "utf-8"

    def to_message(self, data: Any) -> bytes | None:
        if isinstance(data, str):
            return data.encode()
        if data is None:
            return None
        raise TypeError(f"expected str, got {type(data).__name__}")


@implementer(IPlugin, INamed, IDecoder)
@attrs.frozen
class TextDecoder:
    name: str = "utf-8"

    def from_message(self, data: bytes | None) -> Any:
        return None if data is None else str(data, "utf-8")


@implementer(IPlugin, INamed, IEncoder)
@attrs.frozen
class JSONEncoder:
    name: str = "json"

    def to_message(self, data: Any) -> bytes | None:
        return None if data is None else _write_json(data).encode()


@implementer(IPlugin, INamed, IDecoder)
@attrs.frozen
class JSONDecoder:
    name: str = "json"

    def from_message(self, data: bytes | None) -> Any:
        return None if data is None else json.loads(str(data, "utf-8"))


bytes_encoder = BytesEncoder()
bytes_decoder = BytesDecoder()
text_encoder = TextEncoder()
text_decoder = TextDecoder()
json_encoder = JSONEncoder()
json_decoder = JSONDecoder()
