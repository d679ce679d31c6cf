"""A long run on Apache Kafka's controllers: brokers and controllers are killed, stopped, paused and cut off.

`python -m tests.crash --cluster --engine kraft` and tests use it; clients and checks are those of `tests.cluster.run`.
Three brokers are this project's, or some are Apache Kafka's. These start slowly, so they suffer single faults only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs

from tests.cluster.cluster import Cluster
from tests.cluster.faults import ALL_FAULTS, NETWORK_FAULTS, QUORUM_FAULTS, SINGLE_FAULTS, Fault
from tests.cluster.network import Network
from tests.cluster.run import BROKERS, COPIERS, SEATS_OF_BOTH, STALE_SECONDS, TOPIC, ClusterRun, Report
from tests.cluster.traffic import SEATS, usual_plans
from tests.crash.workloads import Workload
from tests.crash.workloads.copier_processes import CopierProgram, java_3
from tests.crash.workloads.copier_processes import librdkafka as librdkafka_copier
from tests.crash.workloads.copying import Copying
from tests.crash.workloads.senders import confluent_beside_apache
from tests.crash.workloads.sharing import Sharing, librdkafka, own
from tests.kraft.cluster import QuorumCluster, kraft_apache, kraft_own

RELEASES: Final = ("kafka-3.9", "kafka-4.4")
#: Clients of 4 are expected to use transactions v2, which these clusters have not.
COPIERS_OF_3_9: Final = CopierProgram("mixed", (librdkafka_copier, librdkafka_copier, java_3), life_seconds=6.0)
_RECORDS_PER_KILL: Final = 100  # to copy


@attrs.frozen
class Layout:
    """Parts of a cluster: the controllers' release and number, and the number of Apache Kafka's brokers."""

    release: str = "kafka-4.4"
    apaches: int = 0
    controllers: int = 3

    def cluster(self, directory: Path, settings: Mapping[str, str], network: Network | None) -> QuorumCluster:
        makers = [kraft_apache] * self.apaches + [kraft_own] * (BROKERS - self.apaches)
        return QuorumCluster.on_controllers(directory, makers, self.release, self.controllers, settings, network)

    def kinds(self, network: Network | None) -> Sequence[Fault]:
        """Return the faults that happen here; with several controllers, one of them may be cut off."""
        cuts = () if network is None else NETWORK_FAULTS
        if network is not None and self.controllers > 1:
            cuts = (*cuts, Fault.ISOLATE_CONTROLLER)
        return (*(SINGLE_FAULTS if self.apaches else ALL_FAULTS), *QUORUM_FAULTS, *cuts)

    def others(self, kills: int) -> list[Workload]:
        """Return further clients: transactional copiers, and a share group where the cluster has the feature."""
        copiers = COPIERS_OF_3_9 if self.release == "kafka-3.9" else COPIERS
        copying = Copying(_RECORDS_PER_KILL * kills, [copiers], most=30, pause_ms=60)
        if self.release == "kafka-3.9" or self.apaches:
            return [copying]
        return [copying, Sharing((librdkafka, own), STALE_SECONDS)]


def kraft_run(
    directory: Path, layout: Layout, kills: int, seed: int, report: Report = print, network: Network | None = None
) -> ClusterRun:
    """Return a run of three brokers."""

    def new_cluster(settings: Mapping[str, str]) -> Cluster:
        return layout.cluster(directory, settings, network)

    return ClusterRun(
        directory,
        new_cluster,
        layout.others(kills),
        seed,
        report,
        network,
        layout.kinds(network),
        usual_plans(TOPIC, client=confluent_beside_apache),
        SEATS if layout.release == "kafka-3.9" else SEATS_OF_BOTH,
    )
