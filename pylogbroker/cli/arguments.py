"""Parsing of arguments that several commands share."""

from __future__ import annotations

import re
from collections.abc import Iterable

import click


def assignments(texts: tuple[str, ...], option: str) -> dict[str, str]:
    """Return the pairs of repeated NAME=VALUE."""
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise click.BadParameter(f"{text!r}: expected NAME=VALUE", param_hint=option)
        found[name.strip()] = value.strip()
    return found


def partitions(texts: Iterable[str], option: str) -> dict[str, tuple[int, ...] | None]:
    """Return the partitions of each topic in `TOPIC` (None: all of them) or `TOPIC:0,3`; a topic may be repeated."""
    found: dict[str, tuple[int, ...] | None] = {}
    for text in texts:
        topic, colon, numbers = text.partition(":")
        if not topic or (colon and not re.fullmatch(r"\d+(,\d+)*", numbers)):
            raise click.BadParameter(f"{text!r}: expected TOPIC or TOPIC:PARTITION,...", param_hint=option)
        before = found.get(topic, ())
        named = {int(each) for each in numbers.split(",")} if colon else ()
        found[topic] = tuple(sorted({*before, *named})) if colon and before is not None else None
    return found
