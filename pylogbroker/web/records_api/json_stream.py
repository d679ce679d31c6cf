"""JSON that arrives in pieces: lines (NDJSON), or objects one behind the other.

    splitter = BodyLines(bytes_max)
    for number, line in splitter.add(data): ...
    for number, line in splitter.end(): ...

What is incomplete waits for the next piece, up to a number of bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Protocol

import attrs

from pylogbroker.web.records_api.json_members import BadRecord

Numbered = tuple[int, bytes]
"""A part and its number in the stream: its line, or which object it is, from 1 on."""

_BRACE_OR_QUOTE: Final = re.compile(rb'[{}"]')
_QUOTE_OR_ESCAPE: Final = re.compile(rb'["\\]')
_SPACE: Final = b" \t\r\n"


class Splitter(Protocol):
    number: int
    """Number of the part that begins next."""
    name: str
    """Name of one part in messages, such as line."""

    def add(self, data: bytes) -> Iterator[Numbered]:
        """Yield the parts that are complete; raise BadRecord for one that is too long."""

    def end(self) -> Iterator[Numbered]:
        """Yield the last part, if there is one without an end; raise BadRecord for half of one."""


@attrs.define(eq=False, repr=False)
class BodyLines:
    """Lines of a stream but empty ones; the last one needs no end."""

    _bytes_max: int
    number: int = attrs.field(default=1, init=False)
    name: str = attrs.field(default="line", init=False)
    _data: bytearray = attrs.field(factory=bytearray, init=False)
    _looked_at: int = attrs.field(default=0, init=False)
    """Bytes that are looked at already."""

    def add(self, data: bytes) -> Iterator[Numbered]:
        self._data += data
        begin = 0
        while (end := self._data.find(b"\n", max(begin, self._looked_at))) >= 0:
            line = bytes(self._data[begin:end])
            begin = end + 1
            yield from self._line(line)
            self.number += 1
        del self._data[:begin]
        self._looked_at = len(self._data)
        if len(self._data) > self._bytes_max:
            raise too_long(self._bytes_max)

    def end(self) -> Iterator[Numbered]:
        line = bytes(self._data)
        self._data.clear()
        yield from self._line(line)

    def _line(self, line: bytes) -> Iterator[Numbered]:
        if len(line) > self._bytes_max:
            raise too_long(self._bytes_max)
        if line.strip():
            yield self.number, line


@attrs.define(eq=False, repr=False)
class BodyObjects:
    """JSON objects one behind the other, with space or nothing between them."""

    _bytes_max: int
    number: int = attrs.field(default=1, init=False)
    name: str = attrs.field(default="object", init=False)
    _data: bytearray = attrs.field(factory=bytearray, init=False)
    _looked_at: int = attrs.field(default=0, init=False)
    """Bytes that are looked at already."""
    _depth: int = attrs.field(default=0, init=False)
    _is_in_text: bool = attrs.field(default=False, init=False)

    def add(self, data: bytes) -> Iterator[Numbered]:
        self._data += data
        begin = 0
        while (end := self._end_of_object()) >= 0:
            part = bytes(self._data[begin:end])
            begin = end
            yield self.number, part.lstrip(_SPACE)
            self.number += 1
        del self._data[:begin]
        self._looked_at -= begin
        if len(self._data) > self._bytes_max:
            raise too_long(self._bytes_max)

    def end(self) -> Iterator[Numbered]:
        rest = bytes(self._data).strip(_SPACE)
        if rest:
            raise BadRecord("the body ends within a JSON object")
        yield from ()

    def _end_of_object(self) -> int:
        """Return the place behind the next end of an object at the top, -1 if there is none."""
        data, place = self._data, self._looked_at
        while True:
            match = (_QUOTE_OR_ESCAPE if self._is_in_text else _BRACE_OR_QUOTE).search(data, place)
            if match is None:
                self._looked_at = len(data)
                return -1
            mark, place = match[0], match.end()
            if mark == b"\\":
                if place == len(data):  # what is escaped comes with the next piece
                    self._looked_at = place - 1
                    return -1
                place += 1
            elif mark == b'"':
                self._is_in_text = not self._is_in_text
            elif mark == b"{":
                self._depth += 1
            else:
                self._depth -= 1
                if self._depth <= 0:
                    self._depth, self._looked_at = 0, place
                    return place


def too_long(bytes_max: int) -> BadRecord:
    return BadRecord(f"a record in JSON has at most {bytes_max:,} bytes")
