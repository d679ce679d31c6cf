"""Parsing of arguments that several commands share."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from typing import IO, TYPE_CHECKING, Any

import click

from pylogbroker.cli.output import for_terminal
from pylogbroker.errors import ConfigError

if TYPE_CHECKING:
    from pylogbroker.records import Header


class InputFile(click.File):
    """A file to read as bytes; "-" is the standard input."""

    def __init__(self) -> None:
        super().__init__("rb")

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> IO[Any]:
        if value == "-" and sys.stdin is None:
            self.fail("the standard input is closed: give a file, or leave the standard input open", param, context)
        file: IO[Any] = super().convert(value, param, context)
        return file


def assignments(texts: tuple[str, ...], option: str) -> dict[str, str]:
    """Return the pairs of repeated NAME=VALUE."""
    pairs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise click.BadParameter(f"{text!r}: expected NAME=VALUE", param_hint=option)
        pairs[name.strip()] = value
    return pairs


def header_assignments(texts: tuple[str, ...], option: str) -> list[Header]:
    """Return the headers of repeated NAME=VALUE: bytes as they were typed, in order; names may be repeated."""
    headers: list[Header] = []
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"{text!r}: expected NAME=VALUE", param_hint=option)
        if any("\ud800" <= character <= "\udfff" for character in name):
            raise click.BadParameter(f"{text!r}: the name is not UTF-8", param_hint=option)
        headers.append((name, os.fsencode(value)))
    return headers


def open_output() -> RecordOutput:
    """Return the standard output; raise ConfigError if it is closed."""
    if sys.stdout is None:
        raise ConfigError("the standard output is closed: records have nowhere to go")
    return RecordOutput(sys.stdout.buffer, sys.stdout.isatty())


class RecordOutput:
    """Bytes of records on the standard output; those of a terminal cannot change what it shows."""

    def __init__(self, file: IO[bytes], is_terminal: bool) -> None:
        self.flush = file.flush
        self._write = file.write
        self._is_terminal = is_terminal

    def write(self, data: bytes) -> None:
        self._write(for_terminal(data) if self._is_terminal else data)


def partitions(texts: Iterable[str], option: str) -> dict[str, tuple[int, ...] | None]:
    """Return the partitions of each topic in `TOPIC` (None: all of them) or `TOPIC:0,3`; a topic may be repeated."""
    by_topic: dict[str, tuple[int, ...] | None] = {}
    for text in texts:
        topic, colon, numbers = text.partition(":")
        if not topic or (colon and not re.fullmatch(r"\d+(,\d+)*", numbers)):
            raise click.BadParameter(f"{text!r}: expected TOPIC or TOPIC:PARTITION,...", param_hint=option)
        before = by_topic.get(topic, ())
        named = {int(number) for number in numbers.split(",")} if colon else ()
        by_topic[topic] = tuple(sorted({*before, *named})) if colon and before is not None else None
    return by_topic
