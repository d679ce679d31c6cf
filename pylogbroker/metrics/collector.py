"""One scrape of a broker, in slices of the reactor's time."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.exposition import generate_latest

from pylogbroker.broker.assembly import Broker
from pylogbroker.broker.sole.role import SoleRole
from pylogbroker.metrics.archive import collect_archive
from pylogbroker.metrics.cleaner import collect_cleaner
from pylogbroker.metrics.conversions import ConversionMetrics
from pylogbroker.metrics.coordinators import collect_groups, collect_sessions
from pylogbroker.metrics.disk import collect_disk
from pylogbroker.metrics.exposition import Exposition
from pylogbroker.metrics.followers import Following, collect_followers
from pylogbroker.metrics.kraft import collect_kraft
from pylogbroker.metrics.lag_age import LagAges
from pylogbroker.metrics.network import NetworkMetrics
from pylogbroker.metrics.quotas import collect_quotas
from pylogbroker.metrics.remote_ends import RemoteEnds
from pylogbroker.metrics.replicas import FetchRates, collect_cluster, collect_replicas
from pylogbroker.metrics.share_groups import collect_share_groups
from pylogbroker.metrics.topics import collect_topics
from pylogbroker.metrics.transactions import collect_loads, collect_transactions
from pylogbroker.net.service import KafkaFactory


def process_registry() -> CollectorRegistry:
    """Return prometheus-client's metrics of this process and its Python."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


@attrs.define(eq=False, repr=False)
class BrokerMetrics:
    _broker: Broker
    _factories: Sequence[KafkaFactory]
    _following: Following
    _network: NetworkMetrics = attrs.field(factory=NetworkMetrics, init=False)
    _conversions: ConversionMetrics = attrs.field(factory=ConversionMetrics, init=False)
    _fetch_rates: FetchRates = attrs.field(factory=FetchRates, init=False)
    _remote_ends: RemoteEnds = attrs.field(init=False)
    _ages: LagAges = attrs.field(factory=LagAges, init=False)
    _process: CollectorRegistry = attrs.field(factory=process_registry, init=False)

    def __attrs_post_init__(self) -> None:
        role = self._broker.role
        self._remote_ends = RemoteEnds(self._broker, None if isinstance(role, SoleRole) else role.peers)

    async def scrape(self) -> list[bytes]:
        """Return the text of all metrics in chunks."""
        runtime = self._broker.runtime
        await self._remote_ends.refresh()
        chunks = await runtime.slices.run(self._collect())
        process: bytes = await runtime.in_thread(generate_latest, self._process)
        return [*chunks, process]

    async def _collect(self) -> list[bytes]:
        broker, out = self._broker, Exposition()
        has_partitions = broker.config.metrics_partitions_enable
        await self._network.collect(out, self._factories)
        await collect_topics(out, broker.partitions.traffic)
        self._conversions.collect(out, broker.partitions.traffic.conversion_costs)
        await collect_archive(out, broker)
        await collect_replicas(out, broker, has_partitions=has_partitions)
        fetchers = () if isinstance(broker.role, SoleRole) else broker.role.replicas.fetchers()
        self._fetch_rates.collect(out, fetchers, broker.runtime.clock.seconds())
        await collect_cluster(out, broker)
        collect_kraft(out, broker)
        await collect_groups(out, broker, self._remote_ends, self._ages, has_partitions=has_partitions)
        collect_loads(out, broker)
        await collect_transactions(out, broker)
        await collect_quotas(out, broker.quotas)
        collect_cleaner(out, broker)
        collect_sessions(out, broker)
        await collect_share_groups(out, broker, has_partitions=has_partitions)
        await collect_followers(out, self._following)
        collect_disk(out)
        return await out.encode()
