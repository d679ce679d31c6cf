"""Parsing of arguments that several commands share."""

from __future__ import annotations

import re

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


def partitions(text: str, option: str) -> tuple[str, tuple[int, ...] | None]:
    """Return the topic and partitions of `TOPIC` (all of them) or `TOPIC:0,3`."""
    topic, colon, numbers = text.partition(":")
    if not topic or (colon and not re.fullmatch(r"\d+(,\d+)*", numbers)):
        raise click.BadParameter(f"{text!r}: expected TOPIC or TOPIC:PARTITION,...", param_hint=option)
    return topic, tuple(sorted({int(each) for each in numbers.split(",")})) if colon else None
