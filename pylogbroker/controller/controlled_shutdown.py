"""Controlled shutdown: a broker hands over its leaderships before it stops.

Source: KafkaController.doControlledShutdown.

| partition of the broker                | what happens                                        |
|----------------------------------------|-----------------------------------------------------|
| it leads                               | another leader is elected; the ISR loses the broker |
| it leads, others alive are not in sync | unchanged; the answer lists it as remaining         |
| it leads, no other is alive            | unchanged: there is nobody to wait for              |
| it follows                             | the ISR loses the broker; StopReplica stops it      |
| it has the only replica                | unchanged                                           |

Apache Kafka lists those as remaining, too, for which nobody is alive or all others shut down as well. So the last of
its brokers to stop waits for `controlled.shutdown.retry.backoff.ms`, several times.

From then on the broker gets no leadership and joins no ISR, until its next registration.
"""

from __future__ import annotations

import attrs

from pylogbroker.controller import elections
from pylogbroker.controller.controlled_cluster import ControlledCluster
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.metadata.delta import BrokerRegistered
from pylogbroker.metadata.image import PartitionKey


async def shut_down(cluster: ControlledCluster, broker_id: int, broker_epoch: int) -> list[PartitionKey]:
    """Return the partitions that the broker leads until others are in sync.

    Raise KafkaError for an unknown broker or an old epoch.
    """
    broker = cluster.image.brokers.get(broker_id)
    if broker is None:
        raise KafkaError(f"Broker {broker_id} is not registered", ErrorCode.BROKER_NOT_AVAILABLE)
    if broker_epoch < broker.epoch and broker_epoch != -1:
        raise KafkaError(f"Broker {broker_id} has registered again since", ErrorCode.STALE_BROKER_EPOCH)
    cluster.apply(BrokerRegistered(attrs.evolve(broker, shutting_down=True)))
    shutting_down = [other.id for other in cluster.image.brokers.values() if other.shutting_down]
    led: list[PartitionKey] = []
    followed: list[PartitionKey] = []
    async for key, state in cluster.partitions():
        if broker_id in state.replicas and len(state.replicas) > 1 and state.is_stored:
            (led if state.leader == broker_id else followed).append(key)
    await cluster.update(led, lambda key, state: elections.controlled_shutdown(state, cluster.live(key), shutting_down))
    await cluster.take_offline(broker_id, followed)
    return [key for key in led if cluster.live(key) and _leads(cluster, broker_id, key)]


def _leads(cluster: ControlledCluster, broker_id: int, key: PartitionKey) -> bool:
    state = cluster.state(key)
    return state is not None and state.leader == broker_id
