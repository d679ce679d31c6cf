"""Metadata that a broker has applied, compared with the committed records up to its offset."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pylogbroker.broker.kraft.publisher import MetadataPublisher
from pylogbroker.broker.kraft.role import KraftRole
from pylogbroker.metadata.image import ClusterImage
from pylogbroker.replication import LeaderReplica
from tests.kraft.model_state import ModelState
from tests.replication.invariants import Violation

if TYPE_CHECKING:
    from tests.simulation.quorum import SimulatedQuorum


class AppliedMetadata:
    """Metadata of one life of a broker."""

    def __init__(self, quorum: SimulatedQuorum, broker_id: int) -> None:
        self._offset = -1
        self._quorum = quorum
        self._broker_id = broker_id
        self._state = ModelState()
        self._entries = 0

    def check_committed(self, end_offset: int) -> None:
        if end_offset > self._quorum.end:
            raise Violation(
                f"22: broker {self._broker_id} applies records before {end_offset}, "
                f"committed are those before {self._quorum.end}"
            )

    def check(self, publisher: MetadataPublisher) -> None:
        """Check a new image against the committed records."""
        offset = publisher._published.offset
        if offset < self._offset:
            raise Violation(f"22: broker {self._broker_id} goes back from offset {self._offset} to {offset}")
        entries = self._quorum.entries
        while self._entries < len(entries) and entries[self._entries].end <= offset + 1:
            for record in entries[self._entries].records or ():
                self._state.apply(record)
            self._entries += 1
        self._offset = offset
        self._compare(publisher._metadata.image)

    def _compare(self, image: ClusterImage) -> None:
        state = self._state
        expected: dict[str, Mapping[Any, Any]] = {
            "topics": state.topics,
            "partitions": {
                (state.names[topic_id], number): (one.leader, one.leader_epoch, one.partition_epoch, one.isr)
                for (topic_id, number), one in state.partitions.items()
            },
            "brokers": {number: member.epoch for number, member in state.members.items() if not member.is_fenced},
        }
        present: dict[str, Mapping[Any, Any]] = {
            "topics": {name: topic.id for name, topic in image.topics.items()},
            "partitions": {
                (name, number): (one.leader, one.leader_epoch, one.partition_epoch, list(one.isr))
                for name, topic in image.topics.items()
                for number, one in topic.partitions.items()
            },
            "brokers": {number: broker.epoch for number, broker in image.brokers.items()},
        }
        for kind, values in expected.items():
            if present[kind] != values:
                raise Violation(
                    f"22: broker {self._broker_id} has the {kind} {present[kind]} at offset {self._offset}, "
                    f"committed are {values}"
                )


def check_leaderships(quorum: SimulatedQuorum, role: KraftRole) -> None:
    """Check that a broker leads as committed records say, and knows no other ISRs than those."""
    for (name, number), replica in role.replicas._replicas.items():
        leader = replica.machine.role
        if not isinstance(leader, LeaderReplica) or replica.leadership is None:
            continue
        key, isr = (replica.topic.id, number), leader.isr
        if quorum.leader_in(key, leader.leader_epoch) != role._broker_id:
            raise Violation(f"24: broker {role._broker_id} leads {name}-{number} in epoch {leader.leader_epoch}")
        committed = quorum.history.get((key, isr.partition_epoch))
        if committed is None or committed[1:] != (leader.leader_epoch, list(isr.committed)):
            raise Violation(
                f"25: broker {role._broker_id} has the ISR {isr.committed} of {name}-{number} at partition epoch "
                f"{isr.partition_epoch}, committed is {committed}"
            )
