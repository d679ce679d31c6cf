"""Resolve options to partitions and offsets.

    option              offset
    earliest, latest    as the leader reports now
    JSON                as given; -2 is earliest, -1 latest
    starting time       the first record at or after it; without one: an error, or latest
    ending time         the first record at or after it; without one: latest

`subscribePattern` is a Python regular expression, searched anywhere in a topic's name; internal topics do not match.
Unlike in Spark, they can be named, and a missing named partition is an error.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from pylogbroker.blocking.cluster import BlockingCluster, partitions_of
from pylogbroker.client.metadata import TopicInfo
from pylogbroker.errors import ConfigError, ErrorCode, KafkaError, PylogbrokerError
from pylogbroker.interfaces import TopicPartition
from pylogbroker.spark.options import TopicSelection
from pylogbroker.spark.options.positions import Bound, ByTime, named
from pylogbroker.wire.messages.list_offsets import LATEST


class NothingAsLate(PylogbrokerError):
    """A partition has no record at or after the starting time."""


def partitions_for(cluster: BlockingCluster, topics: TopicSelection) -> list[TopicPartition]:
    if topics.assigned is not None:
        infos = cluster.topics({topic for topic, _ in topics.assigned})
        return [(topic, number) for topic, number in topics.assigned if _has(infos, topic, number)]
    if topics.pattern is not None:
        pattern = re.compile(topics.pattern)
        there = cluster.topics().items()
        matching = {name: info for name, info in there if pattern.search(name) and not info.is_internal}
        return partitions_of(matching)
    return partitions_of(cluster.topics(topics.names or ()))


def missing(cluster: BlockingCluster, topics: TopicSelection, existing: Collection[TopicPartition]) -> list[str]:
    if topics.assigned is not None:
        partitions = set(existing)
        return [f"{topic}/{number}" for topic, number in topics.assigned if (topic, number) not in partitions]
    there = {topic for topic, _ in existing}
    return [name for name in topics.names or () if name not in there]


def offsets_for(
    cluster: BlockingCluster,
    bound: Bound,
    partitions: Collection[TopicPartition],
    *,
    starting: bool,
    latest_if_none: bool = True,
) -> dict[TopicPartition, int]:
    if isinstance(bound, ByTime):
        return _by_time(cluster, bound, partitions, starting, latest_if_none)
    if isinstance(bound, int):
        return _looked_up(cluster, dict.fromkeys(partitions, bound))
    _check_given(bound, partitions, "startingOffsets" if starting else "endingOffsets")
    special = {key: offset for key, offset in bound.items() if offset < 0}
    return {**bound, **_looked_up(cluster, special)}


def _has(infos: Mapping[str, TopicInfo], topic: str, number: int) -> bool:
    return topic in infos and number < len(infos[topic].partitions)


def _looked_up(cluster: BlockingCluster, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    return {key: listed.offset for key, listed in cluster.offsets(times).items()} if times else {}


def _by_time(
    cluster: BlockingCluster,
    bound: ByTime,
    partitions: Collection[TopicPartition],
    starting: bool,
    latest_if_none: bool,
) -> dict[TopicPartition, int]:
    if isinstance(bound.times, int):
        times = dict.fromkeys(partitions, bound.times)
    else:
        _check_given(bound.times, partitions, ("starting" if starting else "ending") + "OffsetsByTimestamp")
        times = dict(bound.times)
    offsets = _looked_up(cluster, times)
    none = {key: LATEST for key, offset in offsets.items() if offset < 0}
    if none and starting and not latest_if_none:
        topic, partition = min(none)
        raise NothingAsLate(
            f"{topic}/{partition} has no record with a timestamp of {times[topic, partition]} or later: give an earlier"
            " time, or set the option startingOffsetsByTimestampStrategy to latest"
        )
    return {**offsets, **_looked_up(cluster, none)}


def _check_given(given: Mapping[TopicPartition, int], partitions: Collection[TopicPartition], option: str) -> None:
    wrong = set(given) ^ set(partitions)
    if wrong:
        topic, partition = min(wrong)
        what = "is not among the partitions that are read" if (topic, partition) in given else "is not given"
        raise ConfigError(
            f"option {option}: {topic}/{partition} {what}; it must name exactly these: {named(partitions)}"
        )


def reject_missing(names: Iterable[str]) -> None:
    text = ", ".join(names)
    if text:
        raise KafkaError(f"there is no such topic or partition: {text}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
