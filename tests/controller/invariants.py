"""Invariants of a cluster: after each write to the tree, and once all is quiet."""

from __future__ import annotations

import attrs

from pylogbroker.metadata import zk_schema
from pylogbroker.metadata.image import NO_LEADER, PartitionKey, PartitionState
from tests.controller.small_cluster import SmallCluster
from tests.controller.stored_cluster import StoredCluster
from tests.tree.conftest import now

STATE = "/state"


@attrs.define(eq=False)
class Invariants:
    """Checks each write at once, as a listener of the tree."""

    cluster: StoredCluster
    epochs: dict[tuple[str, int], tuple[int, int, int]] = attrs.field(factory=dict)
    """Leader epoch, partition epoch and controller epoch, by path and creation of a state's node."""
    leaders: dict[tuple[str, int, int], int] = attrs.field(factory=dict)
    """Leader by path, creation and leader epoch."""
    controller_epoch: int = 0
    checked: int = 0

    @classmethod
    def watch(cls, cluster: StoredCluster) -> Invariants:
        watching = cls(cluster)
        cluster.tree.listeners.append(watching.check)
        return watching

    def check(self, path: str) -> None:
        entry = self.cluster.tree.entries.get(path)
        if entry is None:
            return
        if path == "/controller_epoch":
            epoch = zk_schema.decode_controller_epoch(entry.data)
            assert epoch == entry.version >= self.controller_epoch
            self.controller_epoch = epoch
        elif path.startswith("/brokers/topics/"):
            name = path.split("/")[3]
            if path.endswith(STATE):
                key = (name, int(path.split("/")[5]))
                self._check_state(path, entry.created, self.cluster.state(key))
            elif path == f"/brokers/topics/{name}":
                for number in self.cluster.topic(name).replicas:
                    self._check_members(self.cluster.state((name, number)))

    def _check_members(self, state: PartitionState) -> None:
        if state.is_stored:
            assert set(state.isr) <= set(state.replicas), state
            assert state.isr, state
            assert len(set(state.isr)) == len(state.isr), state
            assert state.leader in (*state.isr, NO_LEADER), state

    def _check_state(self, path: str, created: int, state: PartitionState) -> None:
        self.checked += 1
        self._check_members(state)
        before = self.epochs.get((path, created), (-1, -1, -1))
        after = (state.leader_epoch, state.partition_epoch, state.controller_epoch)
        assert all(old <= new for old, new in zip(before, after, strict=True)), (path, before, after)
        assert after[1] == before[1] + 1, (path, before, after)
        self.epochs[path, created] = after
        known = self.leaders.setdefault((path, created, state.leader_epoch), state.leader)
        assert known == state.leader, (path, state)


def check_leaderships(cluster: SmallCluster) -> None:
    """At most one broker leads a partition in one leader epoch."""
    alive = [(broker.id, each) for broker in cluster.brokers.values() for each in broker.led]
    by_epoch: dict[object, int] = {}
    for broker_id, each in cluster.dead_leaderships + alive:
        assert by_epoch.setdefault(each, broker_id) == broker_id, each


def catch_up(cluster: SmallCluster) -> None:
    """Let leaders add all live replicas to their ISRs, and the cluster come to rest."""
    for _ in range(20):
        cluster.settle()
        behind = [
            (key, state)
            for key, state in cluster.states().items()
            if state.leader in cluster.brokers and lacking(cluster, key, state)
        ]
        if not behind or cluster.controller is None:
            return
        for key, state in behind:
            cluster.alter_isr(key, [*state.isr, *lacking(cluster, key, state)])
    raise AssertionError(f"ISRs stay incomplete: {behind}")


def lacking(cluster: SmallCluster, key: PartitionKey, state: PartitionState) -> list[int]:
    return [
        broker
        for broker in state.replicas
        if broker not in state.isr and broker in cluster.brokers and key not in cluster.brokers[broker].failed
    ]


def check_quiet(cluster: SmallCluster) -> None:
    """All brokers live, and nothing waits: everything has come to its end, and all views agree with the tree."""
    controller = cluster.controller
    assert controller is not None
    states = cluster.states()
    for key, state in states.items():
        assert state.is_stored, key
        assert state.leader in cluster.brokers, (key, state)
        assert not state.is_reassigned, (key, state)
        assert set(state.isr) == set(state.replicas), (key, state)
    assert now(controller.list_reassignments()) == {}
    assert not controller._cluster.deletions
    for parent in ("/admin/delete_topics", "/log_dir_event_notification", "/isr_change_notification"):
        assert cluster.tree.names(parent) == []
    in_image = {
        (topic.name, number): state
        for topic in controller.image.topics.values()
        for number, state in topic.partitions.items()
    }
    assert in_image == states
    for broker in cluster.brokers.values():
        assert broker.live_brokers == cluster.brokers.keys()
        assert broker.metadata == states, broker.id
        for key, state in states.items():
            if broker.id in state.replicas:
                known = broker.replicas[key]
                assert (known.leader, known.leader_epoch) == (state.leader, state.leader_epoch), (broker.id, key)
                assert known.replicas == state.replicas
