"""Settings that releases of Kafka define, as their own classes print them, in files beside this one.

`python -m tests.config.kafka_releases` writes the package's list of settings that the broker accepts and does not use.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import attrs

from pylogbroker.config import BROKER, TOPIC
from pylogbroker.config.unused_settings import FILE_NAME

_HERE = Path(__file__).parent
PACKAGED = Path(__file__).parents[2] / "pylogbroker" / "config" / FILE_NAME
_HEAD = """\
# Settings that Apache Kafka 3.9 or 4.x defines and that this broker accepts, keeps and does not use.
# Written by `python -m tests.config.kafka_releases`. A release's newest definition counts.
# scope	name	type	default	importance	how it can be changed	least	most	internal
"""


@attrs.frozen
class Defined:
    """One setting as one release defines it."""

    scope: str
    name: str
    type: str
    default: str
    importance: str
    mode: str
    least: str = ""
    most: str = ""
    internal: str = "-"
    synonyms: str = "-"


def release_3_9() -> list[Defined]:
    """Kafka 3.9.0's settings."""
    rows = []
    for line in _lines("kafka_3_9.tsv"):
        *fields, synonyms = line.split("\t")
        rows.append(Defined(*fields, synonyms=synonyms))
    return rows


def release_4_4() -> list[Defined]:
    """Kafka 4.4.0's settings."""
    return [Defined(*line.split("\t")) for line in _lines("kafka_4_4.tsv")]


def between() -> list[Defined]:
    """Settings of the releases between 3.9.0 and 4.4.0 that neither of these defines."""
    return [Defined(*line.split("\t")) for line in _lines("kafka_between.tsv")]


def defined() -> dict[tuple[str, str], Defined]:
    """Every setting by scope and name, each in the newest release that defines it."""
    return {(row.scope, row.name): row for row in (*release_3_9(), *between(), *release_4_4())}


def packaged_text() -> str:
    """The text of the package's list: what Kafka defines, without the settings that the broker uses."""
    used = {(row.scope, row.name) for row in (*BROKER.values(), *TOPIC.values()) if not row.no_effect}
    rows = (row for key, row in sorted(defined().items()) if key not in used)
    return _HEAD + "".join("\t".join(_columns(row)) + "\n" for row in rows)


def _columns(row: Defined) -> tuple[str, ...]:
    default = row.default.removeprefix("class ")
    if row.type == "LIST":
        default = default.strip("[]").replace(", ", ",")
    return row.scope, row.name, row.type, default, row.importance, row.mode, row.least, row.most, row.internal


def _lines(file: str) -> Iterator[str]:
    return (line for line in (_HERE / file).read_text().splitlines() if not line.startswith("#"))


if __name__ == "__main__":
    PACKAGED.write_text(packaged_text())
