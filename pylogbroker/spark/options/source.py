"""Options of the source, for batches and streams."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import attrs

from pylogbroker.config import Values
from pylogbroker.errors import ConfigError
from pylogbroker.features import on_first_use
from pylogbroker.interfaces import TopicPartition
from pylogbroker.spark.options import kafka_settings
from pylogbroker.spark.options.positions import Bound, bound, check_assigned, check_bounds
from pylogbroker.spark.options.raw import RawOptions
from pylogbroker.wire.messages.list_offsets import EARLIEST, LATEST

if TYPE_CHECKING:
    from pylogbroker.table.archive import archives
else:
    archives = on_first_use("pylogbroker.table.archive.archives")

_ONLY_STREAMING: Final = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
_ONLY_BATCH: Final = ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp")
_ARCHIVE: Final = "archive"
_PARTITIONS_MAX: Final = (1 << 31) - 1


@attrs.frozen
class TopicSelection:
    """Topics and partitions to read: exactly one field is set."""

    names: tuple[str, ...] | None = None
    pattern: str | None = None
    assigned: tuple[TopicPartition, ...] | None = None


@attrs.frozen
class TriggerLimits:
    """Bounds of a micro-batch, in offsets and ms."""

    most: int | None = None
    least: int | None = None
    longest_delay: int = 15 * 60_000


@attrs.frozen
class Retries:
    """Attempts, and seconds between them, when offsets seem to go backwards."""

    attempts: int = 3
    pause: float = 1.0


@attrs.frozen
class ReadOptions:
    settings: Values
    topics: TopicSelection
    start: Bound
    end: Bound
    latest_if_none: bool
    """Begin at the end of a partition without a record at or after the starting time (else an error)."""
    limits: TriggerLimits
    retries: Retries
    min_partitions: int | None
    max_records: int | None
    fail_on_data_loss: bool
    include_headers: bool
    stall_timeout: float
    """Seconds without data before a read fails."""
    push_filters: bool
    """True if filters may narrow reads; see `batch_reader`."""
    archive: str | None = None
    """Place of an archive that is read before the log (`table.archive.archives`)."""
    warnings: tuple[str, ...] = ()

    @classmethod
    def parse(cls, options: Mapping[str, str], *, streaming: bool) -> ReadOptions:
        raw = RawOptions(options)
        if streaming:
            raw.reject(_ONLY_BATCH, "a stream has no end")
            raw.reject((_ARCHIVE,), "a stream reads the log alone")
        else:
            raw.ignore(_ONLY_STREAMING, "it applies only to streams")
        start = bound(raw, "starting", LATEST if streaming else EARLIEST)
        end = bound(raw, "ending", LATEST)
        check_bounds(start, end, streaming=streaming)
        topics = _topics(raw)
        if topics.assigned is not None:
            check_assigned(topics.assigned, start, "starting")
            check_assigned(topics.assigned, end, "ending")
        poll = raw.integer("kafkaConsumer.pollTimeoutMs", least=0)
        return cls(
            settings=kafka_settings.reading(raw),
            topics=topics,
            start=start,
            end=end,
            latest_if_none=_strategy(raw),
            limits=_limits(raw),
            retries=_retries(raw),
            min_partitions=raw.integer("minPartitions", most=_PARTITIONS_MAX),
            max_records=raw.integer("maxRecordsPerPartition"),
            fail_on_data_loss=raw.flag("failOnDataLoss", True),
            include_headers=raw.flag("includeHeaders", False),
            stall_timeout=(120_000 if poll is None else poll) / 1000,
            push_filters=raw.flag("pushFilters", False),
            archive=_archive(raw),
            warnings=tuple(raw.warnings),
        )


def _archive(raw: RawOptions) -> str | None:
    text = raw.text(_ARCHIVE)
    if text is not None:
        try:
            archives.open_archive(text)
        except ConfigError as error:
            raise ConfigError(f"option {error}") from None
    return text


def _topics(raw: RawOptions) -> TopicSelection:
    names = [name for name in ("subscribe", "subscribePattern", "assign") if raw.text(name) is not None]
    if len(names) != 1:
        what = "are given: give only one" if names else "is given: give one"
        raise ConfigError(f"{', '.join(names) or 'none'} of the options subscribe, subscribePattern and assign {what}")
    text = (raw.text(names[0]) or "").strip()
    if names[0] == "assign":
        return TopicSelection(assigned=_assigned(raw))
    if names[0] == "subscribePattern":
        return TopicSelection(pattern=_pattern(text))
    topics = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not topics:
        raise ConfigError("option subscribe: it names no topic; expected topic names, separated by commas")
    return TopicSelection(names=topics)


def _pattern(text: str) -> str:
    if not text:
        raise ConfigError("option subscribePattern: it is empty; expected a regular expression for topic names")
    try:
        with warnings.catch_warnings(action="error", category=FutureWarning):
            re.compile(text)
    except (re.error, FutureWarning) as error:  # nested sets: different in Java
        raise ConfigError(f"option subscribePattern: {text!r} is not a Python regular expression: {error}") from None
    return text


def _assigned(raw: RawOptions) -> tuple[TopicPartition, ...]:
    by_topic = raw.json("assign")
    if not isinstance(by_topic, dict) or not all(
        isinstance(numbers, list) and all(type(number) is int and number >= 0 for number in numbers)
        for numbers in by_topic.values()
    ):
        text = raw.text("assign")
        raise ConfigError(f'option assign: {text!r} is not accepted; expected JSON such as {{"topic": [0, 1]}}')
    assigned = tuple(sorted({(topic, number) for topic, numbers in by_topic.items() for number in numbers}))
    if not assigned:
        raise ConfigError("option assign: it names no partition")
    return assigned


def _strategy(raw: RawOptions) -> bool:
    text = (raw.text("startingOffsetsByTimestampStrategy") or "error").strip().lower()
    if text not in ("error", "latest"):
        raise ConfigError(
            f"option startingOffsetsByTimestampStrategy: {text!r} is not accepted; expected error, latest"
        )
    return text == "latest"


def _limits(raw: RawOptions) -> TriggerLimits:
    most, least = raw.integer("maxOffsetsPerTrigger"), raw.integer("minOffsetsPerTrigger")
    if most is not None and least is not None and least > most:
        raise ConfigError(f"option minOffsetsPerTrigger: {least} is more than maxOffsetsPerTrigger, {most}")
    return TriggerLimits(most, least, raw.milliseconds("maxTriggerDelay", TriggerLimits().longest_delay))


def _retries(raw: RawOptions) -> Retries:
    attempts = raw.integer("fetchOffset.numRetries", least=0)
    pause = raw.integer("fetchOffset.retryIntervalMs", least=0)
    return Retries(
        Retries().attempts if attempts is None else max(1, attempts), Retries().pause if pause is None else pause / 1000
    )
