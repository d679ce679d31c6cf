"""Units in values of settings: `retention.ms=7d`, `segment.bytes=1GB`, which brokers take as plain numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import click

from pylogbroker.config import durations
from pylogbroker.java.text import is_digits

_SIZES: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SIZE: Final = re.compile(r"(\d{1,15})\s*([kmgt]?)(?:i?b)?")
_TIMES_MS: Final = {"ms": 1, "seconds": 1000, "minutes": 60_000, "hours": 3_600_000}
_SIZE_NAMES: Final = ("bytes", "size", "byte_rate")


def size_in_bytes(text: str) -> int | None:
    """Return the bytes of a text such as 64MB, by powers of two; None for any other text."""
    match = _SIZE.fullmatch(text.strip().lower())
    return None if match is None else int(match[1]) * _SIZES[match[2]]


def without_units(settings: Mapping[str, str]) -> dict[str, str]:
    """Return settings whose times and sizes are plain numbers; note on standard error what units became."""
    plain = {name: _plain(name, text.strip()) or text for name, text in settings.items()}
    for name, text in plain.items():
        if text != settings[name]:
            click.echo(f"{name}={text} ({settings[name].strip()})", err=True)
    return plain


def _plain(name: str, text: str) -> str | None:
    if is_digits(text):
        return None
    *_, unit = re.split(r"[._]", name)
    number: int | None = None
    if unit in _TIMES_MS:
        span_ms = durations.milliseconds(text.lower())
        if span_ms is not None and span_ms % _TIMES_MS[unit] == 0:
            number = span_ms // _TIMES_MS[unit]
    elif name.endswith(_SIZE_NAMES):
        number = size_in_bytes(text)
    return None if number is None else str(number)
