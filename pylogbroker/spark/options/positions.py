"""Options that bound reading: `startingOffsets`, `endingOffsets` and their variants.

    option                   value
    ...Timestamp             ByTime: one time for all partitions
    ...OffsetsByTimestamp    ByTime: a time per partition, as JSON: {"topic": {"0": 1700000000000}}
    ...Offsets               EARLIEST, LATEST, or an offset per partition, as JSON: {"topic": {"0": 23, "1": -2}}

The first one that is set counts, as in Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from pylogbroker.errors import ConfigError
from pylogbroker.interfaces import TopicPartition
from pylogbroker.spark.options.raw import LONG_MAX, RawOptions
from pylogbroker.wire.messages.list_offsets import EARLIEST, LATEST

Offsets = int | Mapping[TopicPartition, int]
"""An offset, EARLIEST or LATEST, for all partitions or each."""


@attrs.frozen
class ByTime:
    """First offset at or after a time in ms, for all partitions or each."""

    times: int | Mapping[TopicPartition, int]


Bound = Offsets | ByTime


def bound(raw: RawOptions, which: str, default: int) -> Bound:
    time = raw.integer(f"{which}Timestamp", least=0)
    if time is not None:
        return ByTime(time)
    if raw.text(f"{which}OffsetsByTimestamp") is not None:
        return ByTime(_by_partition(raw, f"{which}OffsetsByTimestamp", least=0))
    word = (raw.text(f"{which}Offsets") or "").strip().lower()
    if word in ("earliest", "latest"):
        return EARLIEST if word == "earliest" else LATEST
    return default if raw.text(f"{which}Offsets") is None else _by_partition(raw, f"{which}Offsets", EARLIEST)


def check_bounds(start: Bound, end: Bound, *, streaming: bool) -> None:
    """Raise ConfigError for bounds that Spark's source rejects."""
    if not streaming and (start == LATEST or (isinstance(start, Mapping) and LATEST in start.values())):
        raise ConfigError("option startingOffsets: latest (-1) is only for a stream: a batch would read nothing")
    if end == EARLIEST or (isinstance(end, Mapping) and EARLIEST in end.values()):
        raise ConfigError("option endingOffsets: earliest (-2) is not accepted: nothing would be read")
    if isinstance(start, ByTime) and isinstance(end, ByTime):
        _check_order(start.times, end.times, "time")
    elif not isinstance(start, ByTime) and not isinstance(end, ByTime):
        _check_order(start, end, "offset")


def check_assigned(assigned: Iterable[TopicPartition], where: Bound, which: str) -> None:
    """Raise ConfigError unless per-partition offsets name exactly the assigned partitions."""
    raw = where.times if isinstance(where, ByTime) else where
    if isinstance(raw, Mapping) and set(raw) != set(assigned):
        raise ConfigError(
            f"the {which} offsets must be given for exactly the partitions of the option assign: "
            f"{named(assigned)}; given: {named(raw)}"
        )


def named(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(f"{topic}/{number}" for topic, number in sorted(partitions)) or "none"


def _check_order(start: Offsets, end: Offsets, what: str) -> None:
    if not isinstance(start, Mapping) or not isinstance(end, Mapping):
        return
    if set(start) != set(end):
        raise ConfigError(
            f"{what}s to start and to end at must be given for the same partitions: {named(start)}; {named(end)}"
        )
    for key, first in sorted(start.items()):
        if 0 <= end[key] < first:
            raise ConfigError(f"{named([key])} starts at {what} {first} and ends at {what} {end[key]}, which is before")


def _by_partition(raw: RawOptions, name: str, least: int) -> dict[TopicPartition, int]:
    by_topic = raw.json(name)
    try:
        offsets = {
            (topic, int(number)): value for topic, numbers in by_topic.items() for number, value in numbers.items()
        }
    except (AttributeError, ValueError):  # also of a text that is no JSON
        offsets = None
    if offsets is None or not all(type(offset) is int and least <= offset <= LONG_MAX for offset in offsets.values()):
        words = "" if least == 0 else "earliest, latest, or "
        what = "times in ms" if least == 0 else "offsets, -2 for earliest, -1 for latest"
        raise ConfigError(
            f"option {name}: {raw.text(name)!r} is not accepted; expected {words}JSON such as"
            f' {{"topic": {{"0": 23}}}} with {what}'
        )
    return offsets
