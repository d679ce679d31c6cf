"""One controller at work: what each event does to the tree and to the brokers."""

from __future__ import annotations

import uuid
from unittest.mock import AsyncMock, patch

import attrs

from pylogbroker.controller.isr_changes import WantedIsr
from pylogbroker.controller.ports import ControllerSettings
from pylogbroker.controller.requested_elections import ElectionKind
from pylogbroker.controller.requests import LeaderAndIsr, StopReplica, UpdateMetadata
from pylogbroker.errors import ErrorCode
from pylogbroker.interfaces import Create, Delete, NotPermitted, SetData
from pylogbroker.metadata import zk_paths, zk_schema
from pylogbroker.metadata.image import LeaderRecovery, PartitionKey, PartitionState
from pylogbroker.metadata.inter_broker_protocol import NEWEST_PROTOCOL, InterBrokerProtocol
from pylogbroker.metadata.zk_image import encode_state
from tests.controller.invariants import catch_up
from tests.controller.memory_tree import TreeSession
from tests.controller.small_cluster import T0, SmallCluster, kinds, running, sent, written
from tests.metadata.partition_lists import encode_partition_list


def fail_disk(cluster: SmallCluster, broker: int, *keys: PartitionKey) -> None:
    cluster.brokers[broker].failed.update(keys)
    event = "/log_dir_event_notification/log_dir_event_0000000000"
    cluster.tree.apply([Create(event, zk_schema.encode_log_dir_event(broker))])
    cluster.settle()


class TestTopics:
    def test_a_new_topic(self) -> None:
        cluster = SmallCluster()
        cluster.start(1, 2, 3)
        cluster.elect(3)
        cluster.settle()
        cluster.channels.log.clear()
        cluster.create_topic("t", [(1, 2)])
        cluster.settle()
        assert kinds(cluster, 1) == kinds(cluster, 2) == ["LeaderAndIsr", "UpdateMetadata"]
        assert kinds(cluster, 3) == ["UpdateMetadata"]
        role = sent(cluster, 1)[0]
        assert isinstance(role, LeaderAndIsr)
        assert [each.is_new for each in role.partitions] == [True]
        assert cluster.brokers[1].led == [("t", cluster.topic("t").topic_id, 0, 0)]

    def test_a_partition_waits_for_its_first_live_replica(self) -> None:
        cluster = running((1, 2))
        cluster.kill(3)
        cluster.settle()
        cluster.add_partition("t", (3,))
        cluster.settle()
        assert not cluster.state(("t", 1)).is_stored
        cluster.start(3)
        cluster.settle()
        assert written(cluster, ("t", 1)) == (3, (3,), 0)

    def test_a_creator_that_writes_states_itself(self) -> None:
        cluster = running((1, 2))
        cluster.create_topic("own", [(2, 1)])
        state = PartitionState(2, (2, 1), (2,), leader_epoch=3)
        for path, data in (("", b""), ("/0", b""), ("/0/state", encode_state(state))):
            cluster.tree.apply([Create(f"/brokers/topics/own/partitions{path}", data)])
        cluster.settle()
        assert written(cluster, ("own", 0)) == (2, (2,), 3)
        assert cluster.brokers[1].replicas["own", 0].leader == 2

    def test_topics_of_an_older_release_get_an_id(self) -> None:
        cluster = running((1, 2))
        data = b'{"partitions":{"0":[1]},"adding_replicas":{},"removing_replicas":{},"version":3}'
        cluster.tree.apply([Create("/brokers/topics/old", data)])
        cluster.settle()
        topic_id = cluster.topic("old").topic_id
        assert topic_id.int
        assert cluster.brokers[1].logs >= {("old", topic_id, 0)}

    def test_releases_below_2_8_have_no_ids(self) -> None:
        settings = ControllerSettings(InterBrokerProtocol.parse("2.7"))
        cluster = running((1, 2), settings=settings)
        data = b'{"partitions":{"0":[1]},"adding_replicas":{},"removing_replicas":{},"version":3}'
        cluster.tree.apply([Create("/brokers/topics/old", data)])
        cluster.settle()
        assert cluster.topic("old").topic_id.int == 0

    def test_a_lost_id_is_written_back(self) -> None:
        cluster = running((1, 2))
        data = b'{"version":1,"partitions":{"0":[1,2],"1":[2,1]}}'
        cluster.tree.apply([SetData("/brokers/topics/t", data)])
        cluster.settle()
        assert cluster.topic("t").topic_id == uuid.UUID(int=5)
        assert written(cluster, ("t", 1)) == (2, (2, 1), 0)

    def test_a_topic_removed_by_hand_is_forgotten(self) -> None:
        cluster = running((1,))
        for path in [
            path for path in sorted(cluster.tree.entries, reverse=True) if path.startswith(zk_paths.topic("t"))
        ]:
            del cluster.tree.entries[path]
        cluster.tree._children["/brokers/topics"].clear()
        cluster.deliver_watch("/brokers/topics")
        cluster.settle()
        assert cluster.controller
        assert not cluster.controller.image.topics
        assert not cluster.brokers[2].metadata

    def test_a_topic_created_again_under_its_name(self) -> None:
        cluster = running((1,))
        node = zk_schema.TopicNode(uuid.UUID(int=6), {0: (2,)})
        cluster.tree.apply([Delete("/brokers/topics/t/partitions/0/state")])
        cluster.tree.apply([SetData("/brokers/topics/t", zk_schema.encode_topic(node))])
        cluster.settle()
        assert written(cluster) == (2, (2,), 0)
        assert cluster.brokers[3].metadata[T0].leader == 2
        assert cluster.brokers[2].logs == {("t", uuid.UUID(int=6), 0)}


class TestBrokers:
    def test_a_broker_that_starts_learns_all_before_it_gets_a_role(self) -> None:
        cluster = running((1, 2), (2, 3))
        cluster.kill(1)
        cluster.settle()
        cluster.channels.log.clear()
        cluster.start(1)
        cluster.settle()
        first, second, *_ = sent(cluster, 1)
        assert isinstance(first, UpdateMetadata)
        assert [(each.topic, each.number) for each in first.partitions] == [("t", 0), ("t", 1)]
        assert isinstance(second, LeaderAndIsr)
        assert [(each.number, each.is_new) for each in second.partitions] == [(0, False)]
        assert second.broker_epoch == cluster.brokers[1].epoch
        other = sent(cluster, 3)[0]
        assert isinstance(other, UpdateMetadata)
        assert other.partitions == ()
        assert [broker.id for broker in other.live_brokers] == [1, 2, 3, 4]

    def test_all_learn_of_the_death_of_a_broker_without_partitions(self) -> None:
        cluster = running((1, 2))
        cluster.kill(3)
        cluster.settle()
        assert cluster.brokers[1].live_brokers == {1, 2, 4}
        assert 3 not in cluster.channels.queues

    def test_other_listeners(self) -> None:
        cluster = running((1, 2))
        path = zk_paths.broker(1)
        node = zk_schema.BrokerNode(("PLAINTEXT://other:1",), {"PLAINTEXT": "PLAINTEXT"})
        cluster.tree.apply([SetData(path, zk_schema.encode_broker(node, 0))])
        cluster.ask(lambda controller: controller.on_node_changed(path))
        cluster.settle()
        update = sent(cluster, 2)[0]
        assert isinstance(update, UpdateMetadata)
        assert update.live_brokers[0].listeners["PLAINTEXT"].host == "other"

    def test_answers_to_an_earlier_registration_are_ignored(self) -> None:
        cluster = running((1, 2))
        old = LeaderAndIsr(4, 1, cluster.brokers[1].epoch, (), ())
        cluster.bounce(1)
        cluster.settle()
        catch_up(cluster)
        before = written(cluster)
        cluster.ask(lambda controller: controller.on_answer(1, old, {T0: ErrorCode.KAFKA_STORAGE_ERROR}))
        assert written(cluster) == before


class TestDisks:
    """Elections as recorded of Apache's controller (topic `u`)."""

    def test_a_failed_log_directory(self) -> None:
        cluster = running((1, 3), (3, 1), (1, 3), (3, 1))
        fail_disk(cluster, 1, ("t", 2), ("t", 3))
        assert [written(cluster, ("t", n)) for n in range(4)] == [
            (1, (1, 3), 0),
            (3, (3, 1), 0),
            (3, (3,), 1),
            (3, (3,), 1),
        ]
        assert cluster.tree.names("/log_dir_event_notification") == []
        assert len(cluster.brokers[1].logs) == 4  # stopped, not deleted
        cluster.kill(3)
        cluster.settle()
        assert [written(cluster, ("t", n)) for n in range(4)] == [
            (1, (1,), 1),
            (1, (1,), 1),
            (-1, (3,), 2),
            (-1, (3,), 2),
        ]

    def test_a_restart_ends_it(self) -> None:
        cluster = running((1, 3))
        fail_disk(cluster, 1, T0)
        cluster.kill(1)
        cluster.start(1)
        cluster.settle()
        catch_up(cluster)
        cluster.kill(3)
        cluster.settle()
        assert written(cluster)[0] == 1

    def test_two_failures_in_one_answer(self) -> None:
        cluster = running((1, 2), (1,))
        fail_disk(cluster, 1, T0, ("t", 1))
        assert [written(cluster, ("t", n)) for n in range(2)] == [(2, (2,), 1), (-1, (1,), 1)]


class TestUncleanElections:
    def dead_isr(self, *, allowed: bool, release: InterBrokerProtocol = NEWEST_PROTOCOL) -> SmallCluster:
        self.held: list[tuple[PartitionKey, int]] = []
        settings = ControllerSettings(
            release,
            allows_unclean_election=lambda topic: allowed,
            unclean_election_held=lambda key, leader: self.held.append((key, leader)),
        )
        cluster = running((1, 2), settings=settings)
        cluster.alter_isr(T0, [1])
        cluster.kill(1)
        cluster.settle()
        return cluster

    def test_the_isr_stays_without_a_leader(self) -> None:
        assert written(self.dead_isr(allowed=False)) == (-1, (1,), 1)
        assert self.held == []

    def test_by_a_tool(self) -> None:
        cluster = self.dead_isr(allowed=False)
        elect = cluster.ask(lambda controller: controller.elect_leaders(ElectionKind.UNCLEAN))
        assert elect == {T0: ErrorCode.NONE}
        assert self.held == [(T0, 2)]
        node = cluster.tree.node(zk_paths.partition_state(*T0))
        assert node
        assert node.data == (
            b'{"controller_epoch":1,"leader":2,"version":1,"leader_recovery_state":1,"leader_epoch":2,"isr":[2]}'
        )

    def test_the_leader_recovers_by_its_next_change(self) -> None:
        cluster = self.dead_isr(allowed=True)
        assert cluster.state(T0).recovery is LeaderRecovery.RECOVERING
        cluster.alter_isr(T0, [2])
        assert cluster.state(T0).recovery is LeaderRecovery.RECOVERED
        assert written(cluster) == (2, (2,), 1)
        assert self.held == [(T0, 2)]

    def test_releases_below_3_2_do_not_mark_it(self) -> None:
        cluster = self.dead_isr(allowed=True, release=InterBrokerProtocol.parse("3.1"))
        assert written(cluster) == (2, (2,), 1)
        assert cluster.state(T0).recovery is LeaderRecovery.RECOVERED

    def test_an_allowed_unclean_election_happens(self) -> None:
        cluster = self.dead_isr(allowed=False)
        assert cluster.controller
        cluster.controller._cluster.settings = ControllerSettings(allows_unclean_election=lambda topic: True)
        cluster.ask(lambda controller: controller.elect_leaderless())
        assert written(cluster) == (2, (2,), 2)

    def test_never_while_the_leader_only_shuts_down(self) -> None:
        cluster = running((1, 2), settings=ControllerSettings(allows_unclean_election=lambda topic: True))
        cluster.alter_isr(T0, [1])
        remaining = cluster.ask(lambda controller: controller.shut_down_broker(1, cluster.brokers[1].epoch))
        assert remaining == [T0]
        cluster.kill(3)
        cluster.settle()
        assert written(cluster) == (1, (1,), 0)


class TestControlledShutdown:
    def test_followers_are_stopped_with_the_epoch_they_know(self) -> None:
        cluster = running((1, 2), (2, 1), (3, 1))
        answer = cluster.ask(lambda controller: controller.shut_down_broker(1, cluster.brokers[1].epoch))
        assert answer == []
        assert [written(cluster, ("t", n)) for n in range(3)] == [(2, (2,), 1), (2, (2,), 1), (3, (3,), 1)]
        assert kinds(cluster, 1) == ["LeaderAndIsr", "UpdateMetadata", "StopReplica"]
        stop = sent(cluster, 1)[-1]
        assert isinstance(stop, StopReplica)
        assert [(each.number, each.leader_epoch, each.delete) for each in stop.replicas] == [
            (1, 0, False),
            (2, 0, False),
        ]
        cluster.settle()
        assert len(cluster.brokers[1].logs) == 3

    def test_partitions_remain_only_while_another_replica_is_alive(self) -> None:
        """The other one may come into the ISR, unless it shuts down, too."""

        def shut_down(broker: int) -> object:
            return cluster.ask(lambda controller: controller.shut_down_broker(broker, cluster.brokers[broker].epoch))

        u0 = ("t", 1)
        cluster = running((1, 2), (1, 3))
        assert cluster.alter_isr(T0, [1]).isr == cluster.alter_isr(u0, [1]).isr == (1,)
        assert shut_down(1) == [T0, u0]
        assert shut_down(2) == []
        assert shut_down(1) == [u0]
        cluster.kill(3)
        cluster.settle()
        assert shut_down(1) == []
        assert [written(cluster, key)[:2] for key in (T0, u0)] == [(1, (1,))] * 2

    def test_the_broker_does_not_come_back_into_an_isr(self) -> None:
        cluster = running((1, 2))
        cluster.ask(lambda controller: controller.shut_down_broker(2, cluster.brokers[2].epoch))
        assert cluster.alter_isr(T0, [1, 2]) is ErrorCode.INELIGIBLE_REPLICA
        assert cluster.controller
        assert cluster.controller.image.brokers[2].shutting_down
        cluster.bounce(2)
        cluster.settle()
        assert isinstance(cluster.alter_isr(T0, [1, 2]), PartitionState)

    def test_errors(self) -> None:
        cluster = running((1, 2))
        epoch = cluster.brokers[1].epoch
        stale = cluster.ask(lambda controller: controller.shut_down_broker(1, epoch - 1))
        assert stale.code is ErrorCode.STALE_BROKER_EPOCH
        unknown = cluster.ask(lambda controller: controller.shut_down_broker(9, epoch))
        assert unknown.code is ErrorCode.BROKER_NOT_AVAILABLE


class TestIsrs:
    def test_changes_are_spread_and_leaders_hear_the_new_epoch(self) -> None:
        cluster = running((1, 2))
        answer = cluster.alter_isr(T0, [1])
        assert (answer.isr, answer.partition_epoch, answer.leader_epoch) == ((1,), 1, 0)
        assert {to for to, _ in cluster.channels.log} == {1, 2, 3, 4}
        assert all(isinstance(request, UpdateMetadata) for _, request in cluster.channels.log)

    def test_errors(self) -> None:
        cluster = running((1, 2))
        unknown = cluster.ask(
            lambda controller: controller.alter_partitions(
                1, cluster.brokers[1].epoch, {("t", 9): WantedIsr(0, 0, (1,)), ("x", 0): WantedIsr(0, 0, (1,))}
            )
        )
        assert set(unknown.values()) == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        stale = cluster.ask(lambda controller: controller.alter_partitions(1, 1, {T0: WantedIsr(0, 0, (1,))}))
        assert stale.code is ErrorCode.STALE_BROKER_EPOCH

    def test_a_topic_that_is_gone_from_the_tree(self) -> None:
        """Its state cannot be written; the controller has not heard of the deletion yet."""
        cluster = running((1, 2), (2, 1))
        epoch = cluster.brokers[1].epoch
        cluster.tree.apply([Delete(zk_paths.partition_state(*T0))])
        answers = cluster.ask(
            lambda controller: controller.alter_partitions(
                1, epoch, {T0: WantedIsr(0, 0, (1,)), ("t", 1): WantedIsr(0, 0, (1,))}
            )
        )
        assert answers == {T0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ("t", 1): ErrorCode.INVALID_REQUEST}

    def test_a_state_that_the_controller_may_not_write(self) -> None:
        cluster = running((1, 2))
        written = NotPermitted(zk_paths.partition_state(*T0))
        with patch.object(TreeSession, "commit_each", AsyncMock(return_value=[written])):
            assert cluster.alter_isr(T0, [1]) is ErrorCode.UNKNOWN_SERVER_ERROR

    def test_a_leader_below_2_7_writes_its_isr(self) -> None:
        cluster = running((1, 2, 3))
        after = attrs.evolve(cluster.state(T0), isr=(1, 2))
        cluster.tree.apply([SetData(zk_paths.partition_state(*T0), encode_state(after), 0)])
        change = encode_partition_list([T0])
        cluster.tree.apply([Create("/isr_change_notification/isr_change_0000000000", change)])
        cluster.settle()
        assert cluster.tree.names("/isr_change_notification") == []
        assert cluster.brokers[4].metadata[T0].isr == (1, 2)

    def test_a_change_that_is_not_known_yet(self) -> None:
        """The ISR has grown by a broker, which dies before the controller has heard of it."""
        cluster = running((1, 2))
        cluster.alter_isr(T0, [1])
        after = attrs.evolve(cluster.state(T0), isr=(1, 2))
        cluster.tree.apply([SetData(zk_paths.partition_state(*T0), encode_state(after), 1)])
        cluster.kill(2)
        cluster.settle()
        assert written(cluster) == (1, (1,), 1)

    def test_a_later_controller_has_written(self) -> None:
        cluster = running((1, 2))
        after = attrs.evolve(cluster.state(T0), controller_epoch=2)
        cluster.tree.apply([SetData(zk_paths.partition_state(*T0), encode_state(after), 0)])
        assert cluster.alter_isr(T0, [1]) is ErrorCode.NOT_CONTROLLER
        cluster.ask(lambda controller: controller.shut_down_broker(2, cluster.brokers[2].epoch))
        assert cluster.controller is None
        assert written(cluster) == (1, (1, 2), 0)
