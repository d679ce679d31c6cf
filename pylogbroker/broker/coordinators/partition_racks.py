"""Racks of partitions: those of the brokers that have a replica."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Final

import attrs

from pylogbroker.metadata.image import BrokerRegistration, TopicImage
from pylogbroker.metadata.persistent_map import PersistentMap

Racks = tuple[frozenset[str], ...]
_NONE: Final[tuple[Racks, bytes]] = (), b""
TOPICS_KEPT_MAX: Final = 1_000


@attrs.define(eq=False, repr=False)
class PartitionRacks:
    """Racks by partition, kept while neither the topic nor the brokers change."""

    _brokers: PersistentMap[int, BrokerRegistration] = attrs.field(factory=PersistentMap, init=False)
    _of_brokers: Mapping[int, str] = attrs.field(factory=dict, init=False)
    _kept: dict[str, tuple[TopicImage, tuple[Racks, bytes]]] = attrs.field(factory=dict, init=False)

    def of(self, topic: TopicImage, brokers: PersistentMap[int, BrokerRegistration]) -> tuple[Racks, bytes]:
        """Return the racks of each partition, and a digest of them; both are empty if no broker has a rack."""
        if brokers is not self._brokers:
            self._brokers = brokers
            self._of_brokers = {broker_id: broker.rack for broker_id, broker in brokers.items() if broker.rack}
            self._kept.clear()
        if not self._of_brokers:
            return _NONE
        kept = self._kept.get(topic.name)
        if kept is not None and kept[0] is topic:
            return kept[1]
        racks = tuple(
            frozenset(self._of_brokers[replica] for replica in state.replicas if replica in self._of_brokers)
            for _, state in sorted(topic.partitions.items())
        )
        if len(self._kept) >= TOPICS_KEPT_MAX:
            self._kept.clear()
        digest = blake2b(repr([sorted(some) for some in racks]).encode(), digest_size=8).digest()
        self._kept[topic.name] = topic, (racks, digest)
        return racks, digest
