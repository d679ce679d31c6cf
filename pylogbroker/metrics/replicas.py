"""Metrics of replicas and partitions, and of the controller."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import attrs

from pylogbroker.broker.assembly import Broker
from pylogbroker.broker.partitions.partition import Partition
from pylogbroker.broker.sole.role import SoleRole
from pylogbroker.long_loops import give_way
from pylogbroker.metadata.image import NO_LEADER, PartitionState
from pylogbroker.metrics import families
from pylogbroker.metrics.exposition import Exposition, label_text
from pylogbroker.metrics.recent_rate import RecentRate

if TYPE_CHECKING:
    from pylogbroker.broker.replication.fetcher import ReplicaFetcher

_RUNNING = 3
_PARTITIONS_PER_STEP = 20
_LAGS_PER_STEP = 500
_REPLICA = "Replica"  # Kafka's clientId of followers
_OF_LOGS = (families.LOG_SIZE, families.LOG_END, families.LOG_START, families.LOG_SEGMENTS)
_OF_LED = (
    families.PARTITION_UNDER_REPLICATED,
    families.PARTITION_UNDER_MIN_ISR,
    families.PARTITION_AT_MIN_ISR,
    families.REPLICAS_COUNT,
    families.IN_SYNC_COUNT,
    families.CURRENT_OFFSET,
    families.OLDEST_OFFSET,
    families.IN_SYNC_REPLICA,
    families.LEADER,
    families.IS_PREFERRED,
    families.REPLICAS,
    families.IS_UNDER_REPLICATED,
)


@attrs.define(eq=False, repr=False)
class FetchRates:
    """Rates of this broker's fetchers since an earlier scrape; at first, since they began."""

    _rates: WeakKeyDictionary[ReplicaFetcher, RecentRate] = attrs.field(factory=WeakKeyDictionary, init=False)

    def collect(self, out: Exposition, fetchers: Iterable[ReplicaFetcher], now: float) -> None:
        """Write the rate of the slowest."""
        slowest = min((self._rate(fetcher, now) for fetcher in fetchers), default=0.0)
        out.add(families.MIN_FETCH_RATE, round(slowest, 6), _REPLICA)

    def _rate(self, fetcher: ReplicaFetcher, now: float) -> float:
        rate = self._rates.get(fetcher)
        if rate is None:
            rate = self._rates[fetcher] = RecentRate()
            rate.update(fetcher.started, 0)
        return rate.update(now, fetcher.requests)


async def collect_replicas(out: Exposition, broker: Broker, *, has_partitions: bool) -> None:
    """Write the counts of replicas; with `has_partitions`, also the metrics of each partition."""
    under_replicated = under_min = at_min = 0
    topics, hosted = broker.metadata.topics, broker.partitions.hosted
    if has_partitions:
        log_rows, led_rows = out.rows(_OF_LOGS), out.rows(_OF_LED)
    for number, (key, partition) in enumerate(tuple(hosted.items())):
        if number % _PARTITIONS_PER_STEP == 0:
            await give_way()
        labels = label_text(families.LOG_SIZE, key[0], str(key[1])) if has_partitions else ""
        if labels:
            log_rows.write(labels, *_log_values(partition))
        topic = topics.get(key[0])
        state = None if topic is None or key not in broker.partitions.led else topic.partitions.get(key[1])
        if state is None:
            continue
        in_sync, least = len(state.isr), partition.wanted_insync_replicas
        under_replicated += in_sync < len(state.replicas)
        under_min += in_sync < least
        at_min += in_sync == least
        if labels:
            led_rows.write(labels, *_led_values(partition, state))
        if key[1] == 0 and topic is not None:
            out.add(families.TOPIC_PARTITIONS, len(topic.partitions), key[0])
    out.add(families.PARTITION_COUNT, len(hosted))
    out.add(families.LEADER_COUNT, len(broker.partitions.led))
    out.add(families.UNDER_REPLICATED, under_replicated)
    out.add(families.UNDER_MIN_ISR, under_min)
    out.add(families.AT_MIN_ISR, at_min)
    out.add(families.OFFLINE_REPLICAS, len(broker.logs.offline))
    out.add(families.OFFLINE_DIRECTORIES, sum(bool(directory.failure) for directory in broker.logs.directories))
    without_topic = 0 if isinstance(broker.role, SoleRole) else broker.role.stray_replicas.without_topic
    out.add(families.STRAY_LOGS, len(broker.logs.stray_directories) + len(broker.logs.foreign) + without_topic)
    out.add(families.BROKER_STATE, _RUNNING)
    updates = None if isinstance(broker.role, SoleRole) else broker.role.isr_updates
    out.add(families.ISR_SHRINKS, 0 if updates is None else updates.shrinks)
    out.add(families.ISR_EXPANDS, 0 if updates is None else updates.expands)
    max_lag = 0
    for number, lag in enumerate(() if isinstance(broker.role, SoleRole) else broker.role.replicas.lags()):
        if number % _LAGS_PER_STEP == 0:
            await give_way()
        max_lag = max(max_lag, lag)
    out.add(families.MAX_LAG, max_lag, _REPLICA)


def _log_values(partition: Partition) -> tuple[int, ...]:
    log = partition.log
    return log.size, log.log_end_offset, log.log_start_offset, len(log.segments)


def _led_values(partition: Partition, state: PartitionState) -> tuple[int, ...]:
    in_sync, count, least, log = len(state.isr), len(state.replicas), partition.wanted_insync_replicas, partition.log
    is_under = int(in_sync < count)
    is_preferred = int(state.leader == state.replicas[0])
    isr = is_under, int(in_sync < least), int(in_sync == least), count, in_sync
    return *isr, log.high_watermark, log.log_start_offset, in_sync, state.leader, is_preferred, count, is_under


async def collect_cluster(out: Exposition, broker: Broker) -> None:
    """Write the brokers that are known, and what the controller knows of the cluster.

    KRaft's controllers have these metrics themselves.
    """
    if broker.kraft is not None:
        return
    image, role = broker.metadata.image, broker.role
    is_active = isinstance(role, SoleRole) or role.driver.is_active
    offline = imbalanced = 0
    for topic in image.topics.values() if is_active else ():
        await give_way()
        for number, state in enumerate(topic.partitions.values()):
            offline += state.leader == NO_LEADER
            imbalanced += state.leader != state.replicas[0]
            if number % _PARTITIONS_PER_STEP == 0:
                await give_way()
    out.add(families.ACTIVE_CONTROLLER, int(is_active))
    out.add(families.UNCLEAN_ELECTIONS, 0 if isinstance(role, SoleRole) else role.unclean_elections)
    out.add(families.OFFLINE_PARTITIONS, offline)
    out.add(families.IMBALANCE, imbalanced)
    out.add(families.GLOBAL_TOPICS, len(image.topics) if is_active else 0)
    out.add(families.GLOBAL_PARTITIONS, image.partition_count if is_active else 0)
    out.add(families.ACTIVE_BROKERS, len(image.brokers) if is_active else 0)
    out.add(families.FENCED_BROKERS, 0)
    out.add(families.BROKERS, len(image.brokers))
    for broker_id, registered in image.brokers.items():
        listener = next(iter(registered.listeners.values()), None)
        address = "" if listener is None else f"{listener.host}:{listener.port}"
        out.add(families.BROKER_INFO, 1, str(broker_id), address)
