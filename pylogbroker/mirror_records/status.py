"""Figures of a running mirror, as a header of its heartbeats in the target.

So a command or a web UI that can read the target alone shows lag and rate of each mirror into it. The header
`pylogbroker-status` is JSON, and MirrorMaker's clients ignore it:

    {"lag": 12, "records": 34567, "bytes": 890123, "records_per_second": 99.5, "bytes_per_second": 12345.6,
     "topics": {"orders": {"target": "east.orders", "partitions": 3, "lag": 12}},
     "stopped": {"bills": "..."}, "trouble": ""}

`topics` and `stopped` are limited: those with the greatest lag come first. Readers take no field for granted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from heapq import nsmallest
from math import isfinite
from typing import Any, Final

import attrs

from pylogbroker.errors import CorruptRecords
from pylogbroker.mirror_records.formats import MirrorHeartbeat
from pylogbroker.records import Header

HEADER: Final = "pylogbroker-status"
TOPICS_MAX: Final = 50
_STOPPED_MAX: Final = 20
_TEXT_MAX: Final = 300
_HEADER_BYTES_MAX: Final = 100_000
_SILENT_SECONDS: Final = 15.0


@attrs.frozen
class MirroredTopicReport:
    """A topic of the source, its name in the target, and its records that are not mirrored yet."""

    topic: str
    target: str
    partitions: int
    lag: int


@attrs.frozen
class StatusReport:
    lag: int = 0
    records: int = 0
    bytes: int = 0
    records_per_second: float = 0.0
    bytes_per_second: float = 0.0
    topics: tuple[MirroredTopicReport, ...] = ()
    stopped: Mapping[str, str] = attrs.field(factory=dict)
    trouble: str = ""

    def header(self) -> Header:
        topics = sorted(self.topics, key=lambda topic: (-topic.lag, topic.topic))[:TOPICS_MAX]
        fields = {
            **{name: getattr(self, name) for name in ("lag", "records", "bytes")},
            "records_per_second": round(self.records_per_second, 1),
            "bytes_per_second": round(self.bytes_per_second, 1),
            "topics": {
                topic.topic: {"target": topic.target, "partitions": topic.partitions, "lag": topic.lag}
                for topic in topics
            },
            "stopped": {name: why[:_TEXT_MAX] for name, why in sorted(self.stopped.items())[:_STOPPED_MAX]},
            "trouble": self.trouble[:_TEXT_MAX],
        }
        return HEADER, json.dumps(fields, separators=(",", ":")).encode()


@attrs.frozen
class MirrorSign:
    """The last heartbeat of a mirror; `report` is None if it is one of MirrorMaker."""

    source: str
    target: str
    timestamp: int
    report: StatusReport | None

    def is_running(self, now: float) -> bool:
        """Return whether the heartbeat is recent; `now` is in seconds."""
        return now - self.timestamp / 1000 < _SILENT_SECONDS


def topics_of(lags: Mapping[str, tuple[int, int]], names: Mapping[str, str]) -> tuple[MirroredTopicReport, ...]:
    """Return the topics with the greatest lags, from partitions and lag of each, and its name in the target."""
    greatest = nsmallest(TOPICS_MAX, lags, key=lambda name: (-lags[name][1], name))
    return tuple(MirroredTopicReport(topic, names.get(topic, topic), *lags[topic]) for topic in greatest)


def signs_of(rows: Iterable[tuple[bytes | None, bytes | None, Sequence[Header]]]) -> list[MirrorSign]:
    """Return the last sign of each mirror from records of the heartbeats topic; others are ignored."""
    signs: dict[tuple[str, str], MirrorSign] = {}
    for key, value, headers in rows:
        try:
            heartbeat = MirrorHeartbeat.decode(key, value)
        except CorruptRecords:
            continue
        text = next((content for name, content in headers if name == HEADER), None)
        sign = MirrorSign(heartbeat.source, heartbeat.target, heartbeat.timestamp, report_of(text))
        signs[sign.source, sign.target] = sign
    return [signs[pair] for pair in sorted(signs)]


def report_of(text: bytes | None) -> StatusReport | None:
    """Return the report in a header; None if it is none, or too large. Fields of other types have their defaults."""
    if text is None or len(text) > _HEADER_BYTES_MAX:
        return None
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict):
        return None
    topics = [_topic(name, row) for name, row in _mapping(fields, "topics").items() if isinstance(row, dict)]
    stopped = {
        _encodable(name): _encodable(why) for name, why in _mapping(fields, "stopped").items() if isinstance(why, str)
    }
    return StatusReport(
        _count(fields, "lag"),
        _count(fields, "records"),
        _count(fields, "bytes"),
        _rate(fields, "records_per_second"),
        _rate(fields, "bytes_per_second"),
        tuple(topics[:TOPICS_MAX]),
        stopped,
        _text(fields, "trouble"),
    )


def _topic(name: str, row: Mapping[str, Any]) -> MirroredTopicReport:
    name = _encodable(name)
    return MirroredTopicReport(name, _text(row, "target") or name, _count(row, "partitions"), _count(row, "lag"))


def _mapping(fields: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = fields.get(name)
    return value if isinstance(value, dict) else {}


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    return _encodable(value[:_TEXT_MAX]) if isinstance(value, str) else ""


def _encodable(text: str) -> str:
    """Return a text with question marks for halves of surrogate pairs, which JSON may have and UTF-8 has not."""
    return text.encode(errors="replace").decode()


def _count(fields: Mapping[str, Any], name: str) -> int:
    value = fields.get(name)
    return value if type(value) is int and 0 <= value < 1 << 63 else 0


def _rate(fields: Mapping[str, Any], name: str) -> float:
    value = fields.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return 0.0
    try:
        rate = float(value)
    except OverflowError:
        return 0.0
    return rate if isfinite(rate) and rate >= 0 else 0.0
