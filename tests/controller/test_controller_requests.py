"""One controller at work: reassignments, deletions, elections, producer ids, and the end of its term."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import TypeVar

import attrs
import pytest

from pylogbroker.controller.controller import ControllerPhase
from pylogbroker.controller.ports import ControllerSettings
from pylogbroker.controller.requested_elections import ElectionKind
from pylogbroker.controller.requests import LeaderAndIsr, StopReplica
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.interfaces import Create, Operation, SetData
from pylogbroker.metadata import zk_paths, zk_schema
from pylogbroker.metadata.inter_broker_protocol import InterBrokerProtocol
from pylogbroker.metadata.zk_image import encode_state
from pylogbroker.metadata.zk_schema import BadNode, ProducerIdBlock
from tests.controller.invariants import catch_up, check_quiet
from tests.controller.memory_tree import AtOnce, Fault
from tests.controller.small_cluster import T0, SmallCluster, running, sent, written
from tests.tree.conftest import now

T = TypeVar("T")


def reassign(cluster: SmallCluster, target: Sequence[int] | None) -> KafkaError | None:
    answer = cluster.ask(lambda controller: controller.alter_reassignments({T0: target}))
    cluster.settle()
    assert isinstance(answer, dict)
    error = answer[T0]
    assert error is None or isinstance(error, KafkaError)
    return error


class TestReassignments:
    def test_replicas_move(self) -> None:
        cluster = running((1, 2))
        assert reassign(cluster, (3, 4)) is None
        assert written(cluster) == (1, (1, 2), 1)
        role = sent(cluster, 3)[0]
        assert isinstance(role, LeaderAndIsr)
        assert [(each.is_new, each.state.replicas) for each in role.partitions] == [(True, (3, 4, 1, 2))]
        assert cluster.controller
        [(key, listed)] = now(cluster.controller.list_reassignments()).items()
        assert (key, listed.adding, listed.removing) == (T0, (3, 4), (1, 2))
        assert now(cluster.controller.list_reassignments([("t", 1)])) == {}
        catch_up(cluster)
        check_quiet(cluster)
        assert written(cluster)[:2] == (3, (3, 4))
        assert [len(cluster.brokers[broker].logs) for broker in (1, 2, 3, 4)] == [0, 0, 1, 1]

    def test_cancellation_deletes_the_added_replicas(self) -> None:
        cluster = running((1, 2))
        reassign(cluster, (3, 4))
        cluster.alter_isr(T0, [1, 2, 3])
        assert reassign(cluster, None) is None
        assert written(cluster)[:2] == (1, (1, 2))
        assert cluster.topic("t").replicas == {0: (1, 2)}
        assert [len(cluster.brokers[broker].logs) for broker in (1, 2, 3, 4)] == [1, 1, 0, 0]
        check_quiet(cluster)

    def test_an_added_leader_is_replaced_when_it_is_not_wanted_any_more(self) -> None:
        cluster = running((1, 2))
        reassign(cluster, (3, 4))
        cluster.alter_isr(T0, [1, 3])
        cluster.kill(1)
        cluster.settle()
        assert written(cluster)[0] == 3
        cluster.alter_isr(T0, [3, 2])
        cluster.start(1)
        cluster.settle()
        reassign(cluster, (1, 2))
        assert written(cluster)[:2] == (2, (2,))
        catch_up(cluster)
        check_quiet(cluster)

    def test_the_assignment_never_leaves_others_than_replicas_in_the_isr(self) -> None:
        cluster = running((1, 2))
        reassign(cluster, (3, 4))
        cluster.alter_isr(T0, [1, 2, 3])
        seen = []

        def check(path: str) -> None:
            state = cluster.state(T0)
            seen.append(set(state.isr) <= set(state.replicas))

        cluster.tree.listeners.append(check)
        reassign(cluster, (2, 4))
        assert seen
        assert all(seen)

    def test_an_isr_with_others_is_repaired_at_the_takeover(self) -> None:
        cluster = running((1, 2))
        after = attrs.evolve(cluster.state(T0), isr=(3, 1), leader=3)
        cluster.tree.apply([SetData(zk_paths.partition_state(*T0), encode_state(after), 0)])
        cluster.kill(4)
        cluster.elect(2)
        cluster.settle()
        assert written(cluster) == (1, (1,), 2)

    def test_a_new_controller_completes_it(self) -> None:
        cluster = running((1, 2))
        reassign(cluster, (3,))
        cluster.faults[cluster.transactions + 1] = Fault.KILL_BEFORE
        cluster.alter_isr(T0, [1, 2, 3])
        assert cluster.controller is None
        assert cluster.state(T0).isr == (1, 2, 3)
        assert cluster.elect(2)
        cluster.settle()
        assert written(cluster)[:2] == (3, (3,))
        assert cluster.topic("t").replicas == {0: (3,)}

    def test_replicas_are_stopped_before_they_leave_the_topic(self) -> None:
        """A controller that dies right after the last write has sent the requests that nobody would repeat."""
        cluster = running((1, 2))
        reassign(cluster, (3,))
        cluster.faults[cluster.transactions + 4] = Fault.KILL_AFTER
        cluster.alter_isr(T0, [1, 2, 3])
        assert cluster.controller is None
        assert cluster.topic("t").replicas == {0: (3,)}
        stopped = [to for to, request in cluster.channels.log if isinstance(request, StopReplica)]
        assert stopped == [1, 2]

    def test_an_added_leader_is_replaced_before_its_target_is_in_sync(self) -> None:
        cluster = running((1, 2))
        reassign(cluster, (3, 4))
        cluster.alter_isr(T0, [1, 3])
        cluster.kill(1)
        cluster.settle()
        cluster.alter_isr(T0, [3, 2])
        reassign(cluster, (2, 4))
        assert written(cluster)[:2] == (2, (2,))
        assert cluster.state(T0).adding == (4,)

    def test_a_partition_that_waits_for_its_first_replica(self) -> None:
        cluster = running((1, 2))
        cluster.kill(3)
        cluster.settle()
        cluster.add_partition("t", (3,))
        cluster.settle()
        key = ("t", 1)
        cluster.ask(lambda controller: controller.alter_reassignments({key: (2,)}))
        cluster.settle()
        assert (cluster.state(key).replicas, cluster.state(key).isr) == ((2,), (2,))
        assert written(cluster, key)[0] == 2

    def test_errors(self) -> None:
        cluster = running((1, 2))
        cluster.kill(3)
        cluster.settle()
        for target, code in (
            ((3,), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
            (None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        ):
            error = reassign(cluster, target)
            assert error
            assert error.code is code
        missing = cluster.ask(lambda controller: controller.alter_reassignments({("t", 5): (1,)}))
        assert missing["t", 5].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def test_a_target_that_dies_before_the_end(self) -> None:
        cluster = running((1, 2))
        reassign(cluster, (3,))
        cluster.kill(3)
        cluster.settle()
        assert cluster.alter_isr(T0, [1, 2, 3]) is ErrorCode.INELIGIBLE_REPLICA
        cluster.start(3)
        cluster.settle()
        catch_up(cluster)
        check_quiet(cluster)
        assert written(cluster)[:2] == (3, (3,))


class TestDeletions:
    def test_all_replicas_are_deleted_first(self) -> None:
        cluster = running((1, 2), (2, 3))
        cluster.kill(3)
        cluster.settle()
        cluster.mark_deleted("t")
        cluster.settle()
        assert cluster.tree.names("/admin/delete_topics") == ["t"]
        assert not cluster.brokers[4].metadata
        assert [len(cluster.brokers[broker].logs) for broker in (1, 2)] == [0, 0]
        assert "/brokers/topics/t" in cluster.tree.entries
        assert cluster.alter_isr(T0, [1]) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        cluster.start(3)
        cluster.settle()
        assert not [path for path in cluster.tree.entries if path.endswith("/t")]
        check_quiet(cluster)

    def test_a_broker_with_a_new_session_forgets_the_topic(self) -> None:
        cluster = running((1, 2))
        known = cluster.brokers[3].metadata
        cluster.bounce(3)
        cluster.brokers[3].metadata = known
        cluster.kill(2)
        cluster.mark_deleted("t")
        cluster.deliver_watch("/admin/delete_topics")  # the requests are for the session before
        cluster.settle()
        assert "/brokers/topics/t" in cluster.tree.entries
        assert not known

    def test_a_new_controller_repeats_it(self) -> None:
        cluster = running((1, 2))
        cluster.mark_deleted("t")
        cluster.deliver_watch("/admin/delete_topics")  # the requests are not delivered
        cluster.kill(4)
        cluster.elect(3)
        cluster.settle()
        assert not [path for path in cluster.tree.entries if path.endswith("/t")]
        assert not cluster.brokers[1].metadata

    def test_marks_of_missing_topics_and_without_permission_are_removed(self) -> None:
        cluster = running((1,), settings=ControllerSettings(deletes_topics=False))
        cluster.mark_deleted("t")
        cluster.mark_deleted("missing")
        cluster.settle()
        assert cluster.tree.names("/admin/delete_topics") == []
        assert "/brokers/topics/t" in cluster.tree.entries

    def test_a_replica_stopped_by_a_reassignment_is_not_deleted(self) -> None:
        cluster = running((1, 2))
        stop = StopReplica(4, 1, cluster.brokers[1].epoch, ())
        cluster.kill(2)
        cluster.settle()
        cluster.mark_deleted("t")
        cluster.deliver_watch("/admin/delete_topics")
        [asked] = [request for request in sent(cluster, 1) if isinstance(request, StopReplica)]
        earlier = attrs.evolve(stop, replicas=(attrs.evolve(asked.replicas[0], leader_epoch=3),))
        cluster.ask(lambda controller: controller.on_answer(1, earlier, {T0: ErrorCode.NONE}))
        assert cluster.controller
        assert sorted(cluster.controller._cluster.deletions["t"].remaining()) == [(0, 1), (0, 2)]
        failed = {T0: ErrorCode.KAFKA_STORAGE_ERROR}
        cluster.ask(lambda controller: controller.on_answer(1, asked, failed))
        assert sorted(cluster.controller._cluster.deletions["t"].remaining()) == [(0, 1), (0, 2)]
        cluster.ask(lambda controller: controller.on_answer(1, asked, {T0: ErrorCode.NONE}))
        assert sorted(cluster.controller._cluster.deletions["t"].remaining()) == [(0, 2)]

    def test_a_topic_created_and_marked_during_a_takeover(self) -> None:
        cluster = running((1, 2))
        cluster.kill(1)
        cluster.kill(4)
        session = cluster.brokers[2].session

        def interrupt(operation: Operation) -> None:
            if operation.path == zk_paths.partition_state(*T0):
                session.fault = lambda operation: None
                cluster.create_topic("young", [(2, 3)])
                cluster.mark_deleted("young")

        session.fault = interrupt  # type: ignore[assignment]
        assert cluster.elect(2)
        cluster.settle()
        assert not [path for path in cluster.tree.entries if "young" in path]

    def test_nodes_that_should_not_be_there(self) -> None:
        cluster = running((1,))
        cluster.tree.apply([Create("/brokers/topics/t/partitions/0/other")])
        cluster.mark_deleted("t")
        cluster.deliver_watch("/admin/delete_topics")
        with pytest.raises(Exception, match="NotEmpty"):
            cluster.settle()
        assert "/admin/delete_topics/t" in cluster.tree.entries


class TestElections:
    def test_preferred(self) -> None:
        cluster = running((1, 2), (2, 1))
        cluster.bounce(1)
        cluster.settle()
        elected = cluster.ask(lambda controller: controller.elect_leaders(ElectionKind.PREFERRED))
        not_available = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        assert elected == {T0: not_available, ("t", 1): ErrorCode.ELECTION_NOT_NEEDED}
        catch_up(cluster)
        elected = cluster.ask(lambda controller: controller.elect_leaders(ElectionKind.PREFERRED, [T0, ("x", 0)]))
        assert elected == {T0: ErrorCode.NONE, ("x", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert written(cluster)[0] == 1

    def test_unclean_is_for_partitions_without_a_leader(self) -> None:
        cluster = running((1, 2), (3,))
        cluster.kill(3)
        cluster.settle()
        elected = cluster.ask(lambda controller: controller.elect_leaders(ElectionKind.UNCLEAN))
        not_available = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
        assert elected == {T0: ErrorCode.ELECTION_NOT_NEEDED, ("t", 1): not_available}

    def test_a_leader_that_shuts_down_needs_no_unclean_election(self) -> None:
        cluster = running((1, 2))
        cluster.alter_isr(T0, [1])
        cluster.ask(lambda controller: controller.shut_down_broker(1, cluster.brokers[1].epoch))
        elected = cluster.ask(lambda controller: controller.elect_leaders(ElectionKind.UNCLEAN))
        assert elected == {T0: ErrorCode.ELECTION_NOT_NEEDED}
        assert written(cluster) == (1, (1,), 0)

    def test_balance(self) -> None:
        cluster = running((1, 2))
        cluster.bounce(1)
        cluster.settle()
        catch_up(cluster)
        assert written(cluster)[0] == 2
        cluster.ask(lambda controller: controller.balance_leaders())
        assert written(cluster)[0] == 1


class TestProducerIds:
    def test_another_writer(self) -> None:
        """Brokers below release 3.0 assign blocks to themselves."""
        cluster = running((1,))
        session = cluster.brokers[4].session

        def interrupt(operation: Operation) -> None:
            session.fault = lambda operation: None
            other = zk_schema.encode_producer_ids(ProducerIdBlock(3, 0, 999))
            cluster.tree.apply([SetData(zk_paths.PRODUCER_ID_BLOCK, other)])

        session.fault = interrupt  # type: ignore[assignment]
        block = cluster.ask(lambda controller: controller.allocate_producer_ids(2, cluster.brokers[2].epoch))
        assert block == ProducerIdBlock(2, 1000, 1999)

    @pytest.mark.parametrize("fault", [None, Fault.UNKNOWN_DONE, Fault.UNKNOWN_NOT_DONE])
    def test_each_block_is_given_once(self, fault: Fault | None) -> None:
        cluster = running((1,))
        if fault:
            cluster.faults[cluster.transactions] = fault
        epoch = cluster.brokers[2].epoch
        blocks = [cluster.ask(lambda controller: controller.allocate_producer_ids(2, epoch)) for _ in range(2)]
        assert blocks == [ProducerIdBlock(2, 0, 999), ProducerIdBlock(2, 1000, 1999)]

    def test_errors(self) -> None:
        cluster = running((1,))
        stale = cluster.ask(lambda controller: controller.allocate_producer_ids(2, 1))
        assert stale.code is ErrorCode.STALE_BROKER_EPOCH


class TestTerms:
    def test_a_controller_resigns_when_its_node_is_gone(self) -> None:
        cluster = running((1,))
        controller = cluster.controller
        assert controller
        cluster.remove_controller_node()
        cluster.settle()
        assert controller.phase is ControllerPhase.RESIGNED
        with pytest.raises(KafkaError) as raised:
            now(controller.list_reassignments())
        assert raised.value.code is ErrorCode.NOT_CONTROLLER
        now(controller.on_node_changed(zk_paths.BROKER_IDS))  # nothing happens

    def test_a_resigned_controller_sends_nothing(self) -> None:
        cluster = running((1, 2))
        controller, former = cluster.controller, cluster.channels
        assert controller
        cluster.remove_controller_node()
        assert cluster.elect(3)
        with pytest.raises(KafkaError):
            now(controller.shut_down_broker(2, cluster.brokers[2].epoch))
        assert controller.phase is ControllerPhase.RESIGNED
        assert former.log == []

    def test_an_unreadable_node_stops_a_takeover(self) -> None:
        cluster = running((1,))
        cluster.tree.apply([SetData("/brokers/topics/t", b"?")])
        cluster.kill(4)
        with pytest.raises(BadNode):
            cluster.elect(1)
        controller = cluster.controller
        assert controller
        assert controller.phase is ControllerPhase.ELECTED

    def test_one_event_at_a_time(self) -> None:
        cluster = running((1,))
        controller = cluster.controller
        assert controller
        inner = controller.elect_leaderless()

        def interrupt(operation: object) -> None:
            inner.send(None)

        session = cluster.brokers[4].session
        session.fault = interrupt  # type: ignore[assignment]
        with pytest.raises(RuntimeError, match="one event at a time"):
            now(controller.allocate_producer_ids(4, cluster.brokers[4].epoch))

    @pytest.mark.parametrize(
        ("release", "before", "after"),
        [
            (InterBrokerProtocol.parse("3.9"), None, b'{"features":{},"version":2,"status":1}'),
            (InterBrokerProtocol.parse("2.7"), None, b'{"features":{},"version":1,"status":1}'),
            (
                InterBrokerProtocol.parse("3.9"),
                b'{"features":{"x":3},"version":1,"status":1}',
                b'{"features":{"x":3},"version":2,"status":1}',
            ),
            (
                InterBrokerProtocol.parse("3.9"),
                b'{"features":{},"version":1,"status":0}',
                b'{"features":{},"version":2,"status":1}',
            ),
        ],
    )
    def test_features(self, release: InterBrokerProtocol, before: bytes | None, after: bytes) -> None:
        cluster = SmallCluster(ControllerSettings(release))
        if before:
            cluster.tree.apply([Create("/feature", before)])
        cluster.start(1)
        cluster.elect(1)
        assert cluster.tree.entries["/feature"].data == after
        version = cluster.tree.entries["/feature"].version
        cluster.kill(1)
        cluster.start(1)
        cluster.elect(1)
        assert cluster.tree.entries["/feature"].version == version


class CountedSlices(AtOnce):
    """Counts the items between which the reactor may serve others."""

    def __init__(self) -> None:
        self.items = 0

    async def over(self, items: Iterable[T]) -> AsyncIterator[T]:
        for item in items:
            self.items += 1
            yield item


def test_requests_for_many_partitions_give_way_after_each() -> None:
    cluster = running((1, 2))
    assert cluster.controller
    slices = cluster.controller._cluster.slices = CountedSlices()
    keys = [("nope", number) for number in range(1000)]
    unknown = cluster.ask(lambda controller: controller.elect_leaders(ElectionKind.PREFERRED, keys))
    assert set(unknown.values()) == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert slices.items == 1000
    assert len(cluster.ask(lambda controller: controller.alter_reassignments(dict.fromkeys(keys)))) == 1000
    assert slices.items == 2000
    assert now(cluster.controller.list_reassignments([*keys, *keys])) == {}
    assert slices.items == 3000
    assert now(cluster.controller.list_reassignments()) == {}
    assert slices.items == 3001
