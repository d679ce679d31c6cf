"""Records as text: kcat's format letters, and JSON.

%t topic    %p partition  %o offset  %T timestamp (ms)  %h headers, name=value,...
%k key      %K its bytes  %s value   %S its bytes; the length of a null is -1
%R bytes of the value, as a big-endian integer of 32 bits.
\\n \\r \\t \\\\ \\x0a  control characters     %%  a percent sign
"""

from __future__ import annotations

import json
import os
import re
from base64 import b64decode, b64encode
from binascii import Error as BadBase64
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from pylogbroker.errors import ConfigError

if TYPE_CHECKING:
    from pylogbroker.client.messages import Message

#: Key, value, headers, timestamp.
Parsed = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]], int | None]

_ESCAPES: Final = {"n": b"\n", "r": b"\r", "t": b"\t", "\\": b"\\"}
_TOKEN: Final = re.compile(r"%(?P<letter>.?)|\\x(?P<hex>[0-9a-fA-F]{2})|\\(?P<escape>.?)|(?P<text>[^%\\]+)")
_LETTERS: Final[dict[str, Callable[[Message], bytes]]] = {
    "t": lambda message: message.topic.encode(),
    "p": lambda message: b"%d" % message.partition,
    "o": lambda message: b"%d" % message.offset,
    "T": lambda message: b"%d" % message.timestamp,
    "k": lambda message: message.key or b"",
    "K": lambda message: b"%d" % _size(message.key),
    "s": lambda message: message.value or b"",
    "S": lambda message: b"%d" % _size(message.value),
    "R": lambda message: _size(message.value).to_bytes(4, "big", signed=True),
    "h": lambda message: b",".join(b"%s=%s" % (name.encode(), value or b"") for name, value in message.headers),
    "%": lambda message: b"%",
}


def formatter(text: str, base64: bool = False) -> Callable[[Message], bytes]:
    """Return the function that writes a record; `text` is `json`, or has letters. Raise ConfigError."""
    if text == "json":
        return lambda message: (json.dumps(_as_object(message, base64), ensure_ascii=False) + "\n").encode()
    parts: list[bytes | Callable[[Message], bytes]] = []
    for match in _TOKEN.finditer(text):
        letter, escape = match["letter"], match["escape"]
        if match["text"] is not None:
            parts.append(os.fsencode(match["text"]))
        elif match["hex"] is not None:
            parts.append(bytes.fromhex(match["hex"]))
        elif letter in _LETTERS:
            parts.append(_LETTERS[letter])
        elif escape in _ESCAPES:
            parts.append(_ESCAPES[escape])
        else:
            expected = "json, or text with %t %p %o %T %k %K %s %S %R %h %%"
            raise ConfigError(f"--format: {match[0]!r} is not accepted; expected {expected}")
    return lambda message: b"".join(part if isinstance(part, bytes) else part(message) for part in parts)


def _as_object(message: Message, base64: bool) -> dict[str, Any]:
    encode = _base64 if base64 else _text
    return {
        "topic": message.topic,
        "partition": message.partition,
        "offset": message.offset,
        "timestamp": message.timestamp,
        "key": encode(message.key),
        "value": encode(message.value),
        "headers": [[name, encode(value)] for name, value in message.headers],
    }


def from_object(
    line: str, base64: bool
) -> tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]], int | None]:
    """Return key, value, headers and timestamp of a line that `_as_object` describes. Raise ConfigError."""
    decode = _from_base64 if base64 else _from_text
    try:
        record = json.loads(line)
        headers = [(str(name), decode(value)) for name, value in record.get("headers") or ()]
        return decode(record.get("key")), decode(record.get("value")), headers, record.get("timestamp")
    except (ValueError, TypeError, AttributeError, BadBase64) as error:
        raise ConfigError(
            f'{line[:60]!r} is no record: {error}; expected an object such as {{"key": null, "value": "x"}}'
        ) from error


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "backslashreplace")


def _base64(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()


def _from_text(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _from_base64(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text, validate=True)
