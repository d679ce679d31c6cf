"""Metrics of share groups: sessions and records in flight here, acknowledgements, dead letters, and stored states."""

from __future__ import annotations

from collections import Counter

from pylogbroker.broker.assembly import Broker
from pylogbroker.groups.share.values import AcknowledgeType
from pylogbroker.long_loops import give_way
from pylogbroker.metrics import families
from pylogbroker.metrics.exposition import Exposition

_COUNTED_TYPES = (AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT, AcknowledgeType.RENEW)


async def collect_share_groups(out: Exposition, broker: Broker, *, has_partitions: bool) -> None:
    """Write the metrics; with `has_partitions`, also the records in flight of each partition."""
    service = broker.share_groups
    out.add(families.SHARE_SESSIONS, len(service.sessions))
    out.add(families.SHARE_SESSION_PARTITIONS, service.partitions.entered)
    out.add(families.SHARE_STATE_WRITES, broker.share_states.coordinator.writes)
    counts = service.counts
    for kind in _COUNTED_TYPES:
        out.add(families.SHARE_ACKNOWLEDGEMENTS, counts.acknowledged[kind], kind.name.lower())
    out.add(families.SHARE_LOCKS_EXPIRED, counts.expired_locks)
    for group_id, letters in tuple(counts.letters.items()):
        await give_way()
        out.add(families.DEAD_LETTERS, letters.stored, group_id)
        out.add(families.DEAD_LETTER_APPENDS, letters.appends, group_id)
        out.add(families.DEAD_LETTER_FAILURES, letters.failed_appends, group_id)
    in_flight: Counter[str] = Counter()
    for led in service.partitions.all_led():
        await give_way()
        group_id, topic, records = led.key.group_id, led.partition.topic, led.records.in_flight
        in_flight[group_id] += records
        if has_partitions:
            out.add(families.SHARE_IN_FLIGHT, records, group_id, topic, str(led.key.partition))
    for group_id, records in in_flight.items():
        out.add(families.SHARE_IN_FLIGHT_SUM, records, group_id)
