"""Metrics of groups and fetch sessions, and the lag of groups."""

from __future__ import annotations

from collections import Counter

from pylogbroker.broker.assembly import Broker
from pylogbroker.groups import GroupType
from pylogbroker.groups.consumer.states import ConsumerGroupState
from pylogbroker.groups.kinds import Group
from pylogbroker.groups.share.group import ShareGroupState
from pylogbroker.long_loops import give_way
from pylogbroker.metadata.image import PartitionKey
from pylogbroker.metrics import families
from pylogbroker.metrics.exposition import Exposition, label_text
from pylogbroker.metrics.lag_age import LagAges
from pylogbroker.metrics.remote_ends import RemoteEnds

_OFFSETS_PER_STEP = 50


def collect_sessions(out: Exposition, broker: Broker) -> None:
    sessions = broker.fetches.sessions
    out.add(families.SESSIONS, len(sessions))
    out.add(families.SESSION_PARTITIONS, sessions.partition_count)
    out.add(families.SESSION_EVICTIONS, sessions.evictions)
    for fetcher in ("consumer", "follower"):
        out.add(families.FETCHES_EXPIRED, broker.fetches.expired[fetcher], fetcher)


async def collect_groups(
    out: Exposition, broker: Broker, remote_ends: RemoteEnds, ages: LagAges, *, has_partitions: bool
) -> None:
    """Write the groups' states and lags; with `has_partitions`, also the lag of each partition."""
    states: Counter[str] = Counter()
    consumer_states: Counter[ConsumerGroupState] = Counter()
    share_states: Counter[ShareGroupState] = Counter()
    streams_states: Counter[str] = Counter()
    types: Counter[GroupType] = Counter()
    lagging: set[PartitionKey] = set()
    offsets = 0
    for group in tuple(broker.groups.groups()):
        await give_way()
        states[group.state.value] += 1
        types[group.type] += 1
        if isinstance(group.state, ConsumerGroupState):
            consumer_states[group.state] += 1
        elif isinstance(group.state, ShareGroupState):
            share_states[group.state] += 1
        elif group.type is GroupType.STREAMS:
            streams_states[group.state.value] += 1
        offsets += len(group.offsets.committed)
        out.add(families.GROUP_MEMBERS, len(group.members), group.group_id)
        await _write_offsets(out, broker, remote_ends, ages, lagging, group, has_partitions=has_partitions)
    ages.forget_others(lagging)
    out.add(families.GROUPS, states.total())
    out.add(families.OFFSETS, offsets)
    for state, family in families.GROUPS_BY_STATE.items():
        out.add(family, states[state])
    for group_type in GroupType:
        out.add(families.GROUPS_BY_PROTOCOL, types[group_type], group_type.value)
    for consumer_state in ConsumerGroupState:
        out.add(families.CONSUMER_GROUPS_BY_STATE, consumer_states[consumer_state], consumer_state.value.lower())
    for share_state in ShareGroupState:
        out.add(families.SHARE_GROUPS_BY_STATE, share_states[share_state], share_state.value.lower())
    for streams_state, label in families.STREAMS_STATES.items():
        out.add(families.STREAMS_GROUPS_BY_STATE, streams_states[streams_state], label)


async def _write_offsets(
    out: Exposition,
    broker: Broker,
    remote_ends: RemoteEnds,
    ages: LagAges,
    lagging: set[PartitionKey],
    group: Group,
    *,
    has_partitions: bool,
) -> None:
    """Write offsets and lags of a group; add the partitions where it is behind to `lagging`."""
    sums: Counter[str] = Counter()
    lags: Counter[str] = Counter()
    seconds: dict[str, float] = {}
    now = broker.runtime.clock.seconds()
    for number, ((topic, index), committed) in enumerate(tuple(group.offsets.committed.items())):
        if number % _OFFSETS_PER_STEP == 0:
            await give_way()
        partition = broker.partitions.hosted.get((topic, index))
        end = remote_ends.get((topic, index)) if partition is None else partition.log.high_watermark
        lag = None if end is None else max(0, end - committed.offset)
        sums[topic] += committed.offset
        if end is not None and lag is not None:
            lags[topic] += lag
            age = 0.0
            if lag:
                lagging.add((topic, index))
                age = ages.age((topic, index), committed.offset, end, now)
            seconds[topic] = max(age, seconds.get(topic, 0.0))
        if has_partitions:
            labels = label_text(families.GROUP_LAG, group.group_id, topic, str(index))
            out.lines(families.GROUP_OFFSET).append(f"{families.GROUP_OFFSET.name}{labels} {committed.offset}\n")
            if lag is not None:
                out.lines(families.GROUP_LAG).append(f"{families.GROUP_LAG.name}{labels} {lag}\n")
    for topic, total in sums.items():
        out.add(families.GROUP_OFFSET_SUM, total, group.group_id, topic)
        if topic in lags:
            out.add(families.GROUP_LAG_SUM, lags[topic], group.group_id, topic)
            out.add(families.GROUP_LAG_SECONDS, round(seconds[topic], 3), group.group_id, topic)
