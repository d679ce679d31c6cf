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
from collections.abc import Callable, Container, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from pylogbroker.errors import ConfigError
from pylogbroker.json_text import named_once, tokens_of, written

if TYPE_CHECKING:
    from pylogbroker.client.messages import Message
    from pylogbroker.records import Header
    from pylogbroker.records.columnar import Columns

#: Key, value, headers, timestamp.
Parsed = tuple["bytes | None", "bytes | None", "tuple[Header, ...]", "int | None"]


class JsonText(bytes):
    """Content that is JSON on one line: it stands in JSON as it is."""


_NO_TIMESTAMP: Final = -1  # of records of old formats
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
    "h": lambda message: _headers(message.headers),
}
_COLUMN_LETTERS: Final[dict[str, Callable[[str, int, Columns], list[bytes]]]] = {
    "t": lambda topic, partition, columns: [topic.encode()] * len(columns),
    "p": lambda topic, partition, columns: [b"%d" % partition] * len(columns),
    "o": lambda topic, partition, columns: [b"%d" % offset for offset in columns.offsets.tolist()],
    "T": lambda topic, partition, columns: [b"%d" % timestamp for timestamp in columns.timestamps.tolist()],
    "k": lambda topic, partition, columns: _filled(columns.keys()),
    "K": lambda topic, partition, columns: [b"%d" % length for length in columns.key_lengths.tolist()],
    "s": lambda topic, partition, columns: _filled(columns.values()),
    "S": lambda topic, partition, columns: [b"%d" % length for length in columns.value_lengths.tolist()],
    "R": lambda topic, partition, columns: [
        length.to_bytes(4, "big", signed=True) for length in columns.value_lengths.tolist()
    ],
    "h": lambda topic, partition, columns: [_headers(headers) for headers in columns.headers()],
}


def _headers(headers: Iterable[Header]) -> bytes:
    return b",".join(b"%s=%s" % (encode_name(name), value or b"") for name, value in headers)


def _filled(fields: list[bytes | None]) -> list[bytes]:
    return [field or b"" for field in fields] if None in fields else fields  # type: ignore[return-value]


def formatter(text: str, base64: bool = False) -> Callable[[Message], bytes]:
    """Return the function that writes a record; `text` is `json`, or has letters. Raise ConfigError."""
    if text == "json":
        return lambda message: _json_line(
            message.topic,
            message.partition,
            message.offset,
            message.timestamp,
            message.key,
            message.value,
            message.headers,
            base64,
        )
    parts = [part if isinstance(part, bytes) else _LETTERS[part] for part in _parts(text)]
    return lambda message: b"".join(part if isinstance(part, bytes) else part(message) for part in parts)


def column_formatter(text: str, base64: bool = False) -> Callable[[str, int, Columns], bytes]:
    """Return the function that writes the records of a partition as `formatter` does, many at once."""
    if text == "json":

        def write_json(topic: str, partition: int, columns: Columns) -> bytes:
            fields = (
                columns.offsets.tolist(),
                columns.timestamps.tolist(),
                columns.keys(),
                columns.values(),
                columns.headers(),
            )
            return b"".join(_json_line(topic, partition, *record, base64) for record in zip(*fields, strict=True))

        return write_json
    parts = [*_parts(text)]

    def write(topic: str, partition: int, columns: Columns) -> bytes:
        count = len(columns)
        pieces = [b""] * (count * len(parts))
        for place, part in enumerate(parts):
            pieces[place :: len(parts)] = (
                [part] * count if isinstance(part, bytes) else _COLUMN_LETTERS[part](topic, partition, columns)
            )
        return b"".join(pieces)

    return write


def _parts(text: str) -> Iterator[bytes | str]:
    """Yield the parts of a format: bytes, and letters of fields. Raise ConfigError."""
    for match in _TOKEN.finditer(text):
        letter, escape = match["letter"], match["escape"]
        if match["text"] is not None:
            yield os.fsencode(match["text"])
        elif match["hex"] is not None:
            yield bytes.fromhex(match["hex"])
        elif letter == "%":
            yield b"%"
        elif letter in _LETTERS:
            yield letter
        elif escape in _ESCAPES:
            yield _ESCAPES[escape]
        else:
            expected = "json, or text with %t %p %o %T %k %K %s %S %R %h %%"
            raise ConfigError(f"--format: {match[0]!r} is not accepted; expected {expected}")


def _json_line(
    topic: str,
    partition: int,
    offset: int,
    timestamp: int,
    key: bytes | None,
    value: bytes | None,
    headers: Iterable[Header],
    base64: bool,
) -> bytes:
    encode = _base64 if base64 else _text
    if type(key) is JsonText or type(value) is JsonText:
        return _line_with_json(topic, partition, offset, timestamp, key, value, headers, base64)
    record = {
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "timestamp": timestamp,
        "key": encode(key),
        "value": encode(value),
        "headers": _header_pairs(headers, base64),
    }
    return (json.dumps(record, ensure_ascii=base64) + "\n").encode()


def _header_pairs(headers: Iterable[Header], base64: bool) -> list[list[str | None]]:
    """Return headers for JSON. Names that are no UTF-8 are escaped as values are; with Base64, JSON escapes them."""
    if base64:
        return [[name, _base64(value)] for name, value in headers]
    return [[_text(encode_name(name)), _text(value)] for name, value in headers]


def _line_with_json(
    topic: str,
    partition: int,
    offset: int,
    timestamp: int,
    key: bytes | None,
    value: bytes | None,
    headers: Iterable[Header],
    base64: bool,
) -> bytes:
    """Return a line whose key or value is JSON itself, with its numbers as they are."""
    encode = _base64 if base64 else _text

    def written(content: bytes | None) -> str:
        return content.decode() if type(content) is JsonText else json.dumps(encode(content), ensure_ascii=False)

    place = f'"topic": {json.dumps(topic)}, "partition": {partition}, "offset": {offset}, "timestamp": {timestamp}'
    pairs = json.dumps(_header_pairs(headers, base64), ensure_ascii=base64)
    return f'{{{place}, "key": {written(key)}, "value": {written(value)}, "headers": {pairs}}}\n'.encode()


def from_object(line: str, base64: bool, json_fields: Container[str] = ()) -> Parsed:
    """Return key, value, headers and timestamp of a line of `consume -f json`; raise ConfigError.

    Keys or values of `json_fields` are any JSON, with numbers as they are.
    """
    decode = decoder_of_texts(base64)
    try:
        record = json.loads(line)
        tokens = tokens_of(line, named_once) if json_fields else {}

        def content(field: str) -> bytes | None:
            value = tokens.get(field) if field in json_fields else record.get(field)
            return written(value).encode() if field in json_fields and value is not None else decode(value)

        headers = headers_of(record.get("headers"), decode)
        return content("key"), content("value"), headers, timestamp_of(record.get("timestamp"))
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ConfigError(
            f'{line[:60]!r} is no record: {error}; expected an object such as {{"key": null, "value": "x"}}'
        ) from error


def decoder_of_texts(base64: bool) -> Callable[[str | None], bytes | None]:
    """Return what makes keys, values and headers of texts in JSON."""
    return _from_base64 if base64 else _from_text


def headers_of(pairs: Any, decode: Callable[[str | None], bytes | None]) -> tuple[Header, ...]:
    """Return the headers of pairs in JSON; raise ValueError or TypeError."""
    if not pairs:
        return ()
    headers = tuple((str(name), decode(value)) for name, value in pairs)
    for name, _ in headers:
        encode_name(name)
    return headers


def timestamp_of(number: Any) -> int | None:
    """Return a record's own timestamp, None without one; raise ValueError."""
    if number is None or (number == _NO_TIMESTAMP and type(number) is int):
        return None
    if type(number) is not int or not 0 <= number < 1 << 63:
        raise ValueError(f"a timestamp is a number of milliseconds since 1970, not {json.dumps(number)[:60]}")
    return number


def encode_name(name: str) -> bytes:
    """Return the bytes of a header's name, which may be no UTF-8; raise ValueError."""
    return name.encode("utf-8", "surrogateescape")


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
