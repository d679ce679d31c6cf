"""Figures of `pylogbroker top`: samples of a cluster, and the rates between them.

A sample has offsets, committed offsets and sizes at one time. `History` keeps some, and makes rows of the last ones.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import attrs

from pylogbroker.cli.topic import all_topics, known_offsets
from pylogbroker.errors import KafkaError
from pylogbroker.features import on_first_use

if TYPE_CHECKING:
    from pylogbroker.blocking.admin import BlockingAdmin
    from pylogbroker.client import admin as admin_api
    from pylogbroker.client.admin import TopicDescription
    from pylogbroker.interfaces import TopicPartition
else:
    admin_api = on_first_use("pylogbroker.client.admin")

Figures = Mapping[str, list[dict[str, Any]]]
"""Rows by view: `topics`, `groups` and `brokers`."""

_SAMPLES: Final = 4
_GROWTHS: Final = 2  # one after the other, for the lag to be a problem


@attrs.frozen
class Sample:
    """State of a cluster at a monotonic time. `sizes` is None for a user who may not see log directories."""

    at: float
    topics: tuple[TopicDescription, ...]
    ends: Mapping[TopicPartition, int]
    sizes: Mapping[tuple[int, TopicPartition], int] | None
    group_states: Mapping[str, str]
    committed: Mapping[str, Mapping[TopicPartition, int]]
    brokers: Mapping[int, str]

    def lag(self, group: str) -> int | None:
        """Return the lag of all partitions with a committed offset; None without one."""
        offsets = self.committed.get(group, {})
        lags = [max(0, self.ends[key] - offset) for key, offset in offsets.items() if key in self.ends]
        return sum(lags) if lags else None


def take_sample(admin: BlockingAdmin, clock: Callable[[], float]) -> Sample:
    """Ask the cluster; raise PylogbrokerError if it does not answer."""
    brokers = {one.broker_id: f"{one.host}:{one.port}" for one in admin.cluster.describe().brokers}
    topics = tuple(all_topics(admin))
    groups = {group.group: group.state for group in admin.groups.list()}
    committed = {group: _committed(admin, group) for group in groups}
    ends = _ends(admin, topics)
    at = clock()
    return Sample(at, topics, ends, _sizes(admin), groups, committed, brokers)


def _ends(admin: BlockingAdmin, topics: Iterable[TopicDescription]) -> dict[TopicPartition, int]:
    led = [(topic.name, one.partition) for topic in topics for one in topic.partitions if one.leader is not None]
    try:
        return known_offsets(admin.records.offsets(dict.fromkeys(led, admin_api.LATEST)))
    except admin_api.ItemsFailed as failed:
        return known_offsets(failed.results)


def _committed(admin: BlockingAdmin, group: str) -> dict[TopicPartition, int]:
    try:
        return {key: committed.offset for key, committed in admin.groups.offsets(group).items()}
    except KafkaError:  # of a user who may not see it, or of a coordinator that moves
        return {}


def _sizes(admin: BlockingAdmin) -> dict[tuple[int, TopicPartition], int] | None:
    try:
        by_broker = admin.replicas.log_dirs()
    except admin_api.ItemsFailed as failed:
        by_broker = failed.results
    except KafkaError:
        return None
    sizes = {
        (broker, key): replica.size
        for broker, directories in by_broker.items()
        for directory in directories
        for key, replica in directory.replicas.items()
        if not replica.is_future
    }
    return sizes or None


class History:
    """The last samples, and the figures that they show."""

    def __init__(self) -> None:
        self._samples: deque[Sample] = deque(maxlen=_SAMPLES)

    def add(self, sample: Sample) -> Figures:
        """Return the figures of this sample, with rates since the one before."""
        self._samples.append(sample)
        rates = _Rates(self._samples[-2] if len(self._samples) > 1 else sample, sample)
        return {
            "topics": [_topic(topic, sample, rates) for topic in sample.topics],
            "groups": [self._group(group, rates) for group in sorted(sample.group_states)],
            "brokers": _brokers(sample, rates),
        }

    def _group(self, group: str, rates: _Rates) -> dict[str, Any]:
        sample = self._samples[-1]
        lags = [lag for lag in (one.lag(group) for one in self._samples) if lag is not None]
        before = rates.before.lag(group)
        growths = [later - earlier for earlier, later in pairwise(lags)][-_GROWTHS:]
        grows = len(growths) == _GROWTHS and min(growths) > 0
        committed = sample.committed.get(group, {})
        return {
            "group": group,
            "state": sample.group_states[group],
            "records_per_second": rates.of(rates.before.committed.get(group, {}), committed, committed),
            "lag": lags[-1] if lags else None,
            "lag_per_second": rates.per_second(lags[-1] - before) if lags and before is not None else None,
            "problem": "lag grows" if grows else None,
        }


class _Rates:
    """Changes per second between two samples."""

    def __init__(self, before: Sample, last: Sample) -> None:
        self.before = before
        self._seconds = last.at - before.at

    def per_second(self, change: float) -> float | None:
        return round(change / self._seconds, 1) if self._seconds > 0 else None

    def of(self, before: Mapping[Any, int] | None, last: Mapping[Any, int] | None, keys: Iterable[Any]) -> float | None:
        """Return the growth of those numbers that both samples have; a number that shrinks counts as unchanged."""
        if before is None or last is None:
            return None
        growths = [max(0, last[key] - before[key]) for key in keys if key in before and key in last]
        return self.per_second(sum(growths)) if growths else None


def _topic(topic: TopicDescription, sample: Sample, rates: _Rates) -> dict[str, Any]:
    keys = [(topic.name, one.partition) for one in topic.partitions]
    at_leaders = [(one.leader, (topic.name, one.partition)) for one in topic.partitions if one.leader is not None]
    offline = sum(one.leader is None for one in topic.partitions)
    under_replicated = sum(len(one.isr) < len(one.replicas) for one in topic.partitions)
    sizes = sample.sizes
    return {
        "topic": topic.name,
        "partitions": len(keys),
        "records_per_second": rates.of(rates.before.ends, sample.ends, keys),
        "bytes_per_second": rates.of(rates.before.sizes, sizes, at_leaders),
        "bytes": None if sizes is None else sum(sizes.get(one, 0) for one in at_leaders),
        "problem": _problem({"offline": offline, "under-replicated": under_replicated}),
    }


def _brokers(sample: Sample, rates: _Rates) -> list[dict[str, Any]]:
    partitions = [((topic.name, one.partition), one) for topic in sample.topics for one in topic.partitions]
    with_replicas = {number for _, one in partitions for number in one.replicas}
    rows = []
    for number in sorted({*sample.brokers, *with_replicas}):
        led = [key for key, one in partitions if one.leader == number]
        replicas = [(number, key) for key, one in partitions if number in one.replicas]
        behind = sum(number in one.replicas and number not in one.isr for _, one in partitions)
        problem = _problem({"not in sync": behind}) if number in sample.brokers else "offline"
        rows.append(
            {
                "broker": number,
                "address": sample.brokers.get(number),
                "leaders": len(led),
                "replicas": len(replicas),
                "records_per_second": rates.of(rates.before.ends, sample.ends, led),
                "bytes_per_second": rates.of(rates.before.sizes, sample.sizes, replicas),
                "bytes": None if sample.sizes is None else sum(sample.sizes.get(one, 0) for one in replicas),
                "problem": problem,
            }
        )
    return rows


def _problem(counts: Mapping[str, int]) -> str | None:
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count) or None
