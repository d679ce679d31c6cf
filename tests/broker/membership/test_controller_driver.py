"""The driver of a controller: elections, sessions, watches, and requests of handlers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from pylogbroker.broker.membership.controller_channels import AnswerHandler
from pylogbroker.broker.membership.controller_tree import SessionTree
from pylogbroker.controller.isr_changes import WantedIsr
from pylogbroker.controller.ports import ControllerSettings
from pylogbroker.controller.requested_elections import ElectionKind
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.interfaces import Create, Delete, SetData
from pylogbroker.metadata import zk_paths, zk_schema
from pylogbroker.metadata.image import PartitionState
from pylogbroker.metadata.zk_schema import ControllerNode, new_id
from tests.broker.log_lines import logged_lines
from tests.broker.membership.harness import CONTROLLER, DrivenCluster, ModelChannels, begin, error_of
from tests.broker.trees import now, opened_tree

OTHER = zk_schema.encode_controller(ControllerNode(9, 5))


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[DrivenCluster]:
    with opened_tree(str(tmp_path)) as tree:
        cluster = DrivenCluster(tree)
        cluster.start(1, 2)
        yield cluster
        cluster.driver.stop()


@pytest.fixture
def controller(cluster: DrivenCluster) -> DrivenCluster:
    cluster.driver.start()
    cluster.deliver()
    return cluster


def code_of(error: BaseException) -> ErrorCode:
    assert isinstance(error, KafkaError)
    return error.code


def test_the_first_broker_is_elected(cluster: DrivenCluster) -> None:
    cluster.write(Create(zk_paths.TOPICS + "/t", b'{"partitions":{"0":[1,2]},"version":3}'))
    with logged_lines() as lines:
        cluster.driver.start()
    assert cluster.driver.is_active
    node = now(cluster.embedded.get(zk_paths.CONTROLLER))
    assert zk_schema.decode_controller(node.data).broker == CONTROLLER
    assert lines == [
        "broker 0 was elected controller, epoch 1",
        "controller of 2 brokers, 1 topic, 1 partition after 0.00 s",
    ]
    cluster.deliver()
    assert cluster.brokers[2].metadata["t", 0] == cluster.state("t", 0)
    assert cluster.state("t", 0).leader == 1


def test_a_broker_waits_while_another_is_the_controller(cluster: DrivenCluster) -> None:
    cluster.write(Create(zk_paths.CONTROLLER, OTHER, ephemeral=True))
    cluster.driver.start()
    assert not cluster.driver.is_active
    cluster.write(SetData(zk_paths.CONTROLLER, OTHER))
    assert not cluster.driver.is_active
    cluster.write(Delete(zk_paths.CONTROLLER))
    assert cluster.driver.is_active


def test_requests_wait_for_the_takeover(cluster: DrivenCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    def open_channels(answered: AnswerHandler) -> ModelChannels:
        cluster.tree.is_suspended = True  # after the election, before the takeover
        return DrivenCluster.open_channels(cluster, answered)

    monkeypatch.setattr(cluster.driver, "_open_channels", open_channels)
    cluster.driver.start()
    assert (cluster.driver.is_elected, cluster.driver.is_active) == (True, False)
    waiting = begin(cluster.driver.list_reassignments(None))
    assert not waiting.called
    cluster.tree.is_suspended = False
    cluster.clock.advance(1)
    assert (cluster.driver.is_elected, cluster.driver.is_active) == (True, True)
    assert waiting.result == {}
    cluster.driver.stop()
    assert not cluster.driver.is_elected


def test_a_collected_term_neither_waits_nor_logs(cluster: DrivenCluster) -> None:
    """A coroutine that awaits when it is collected raises an error into code that has nothing to do with it."""
    running = cluster.driver._run(SessionTree.of(cluster.tree, cluster.clock))  # type: ignore[arg-type]
    running.send(None)
    assert cluster.driver.is_active
    cluster.tree.is_suspended = True  # a read would have to wait
    with logged_lines() as lines:
        running.close()  # like the collector
    assert lines == []
    assert not cluster.clock.getDelayedCalls()


@pytest.mark.parametrize("is_active", [False, True])
def test_all_requests_need_the_controller(cluster: DrivenCluster, is_active: bool) -> None:
    driver = cluster.driver
    if is_active:
        driver.start()
        driver.stop()
    for request in (
        driver.alter_partitions(1, 1, {}),
        driver.shut_down_broker(1, 1),
        driver.allocate_producer_ids(1, 1),
        driver.elect_leaders(ElectionKind.PREFERRED, None),
        driver.alter_reassignments({}),
        driver.list_reassignments(None),
    ):
        assert code_of(error_of(request)) is ErrorCode.NOT_CONTROLLER
    with pytest.raises(KafkaError):
        _ = driver.image


def test_requests_reach_the_controller(controller: DrivenCluster) -> None:
    driver, brokers = controller.driver, controller.brokers
    controller.create("t", [1, 2])
    change = WantedIsr(0, 0, (1,))
    altered = now(driver.alter_partitions(1, brokers[1].epoch, {("t", 0): change}))
    assert altered == {("t", 0): controller.state("t", 0)}
    assert controller.state("t", 0).isr == (1,)
    block = now(driver.allocate_producer_ids(2, brokers[2].epoch))
    assert (block.broker, block.first, block.last) == (2, 0, 999)
    assert code_of(error_of(driver.allocate_producer_ids(2, 0))) is ErrorCode.STALE_BROKER_EPOCH
    controller.start(3)
    assert now(driver.alter_reassignments({("t", 0): (3,), ("u", 0): (3,)}))["t", 0] is None
    assert list(now(driver.list_reassignments(None))) == [("t", 0)]
    assert now(driver.elect_leaders(ElectionKind.PREFERRED, [("u", 0)])) == {
        ("u", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    }
    assert now(driver.shut_down_broker(1, brokers[1].epoch)) == [("t", 0)]


def test_a_leader_of_a_deleted_topic_does_not_change_its_successor(controller: DrivenCluster) -> None:
    deleted = controller.create("t", [1, 2])
    controller.deliver()
    controller.delete("t")
    controller.deliver()
    created = controller.create("t", [1, 2])
    changes, epoch = {("t", 0): WantedIsr(0, 0, (1,))}, controller.brokers[1].epoch
    for topic, expected in ((deleted, (1, 2)), (created, (1,))):
        altered = now(controller.driver.alter_partitions(1, epoch, changes, {"t": topic.id}))
        assert (altered["t", 0] is ErrorCode.UNKNOWN_TOPIC_ID) == (topic is deleted)
        assert controller.state("t", 0).isr == expected


def test_a_topic_is_created_as_kafka_creates_it(controller: DrivenCluster) -> None:
    topic = controller.create("t", [2, 1], **{"retention.ms": "1"})
    paths = [operation.path for operations in controller.tree.commits for operation in operations]
    assert [path for path in paths if path != zk_paths.CONTROLLER_EPOCH][-5:] == [
        zk_paths.topic_config("t"),
        zk_paths.topic("t"),
        zk_paths.partitions("t"),
        zk_paths.partition("t", 0),
        zk_paths.partition_state("t", 0),
    ]
    settings = now(controller.embedded.get(zk_paths.topic_config("t"))).data
    assert zk_schema.decode_config(settings) == {"retention.ms": "1"}
    assert topic.partitions[0] == PartitionState(2, (2, 1), (2, 1), controller_epoch=1)
    controller.deliver()
    assert controller.brokers[1].replicas["t", 0] == topic.partitions[0]


def test_a_creation_with_lost_answers_is_done_once(controller: DrivenCluster) -> None:
    controller.tree.loses_answers = 2
    node = zk_schema.TopicNode(new_id(), {0: (1, 2)})
    controller.write(Create(zk_paths.topic("t"), zk_schema.encode_topic(node)))  # by another broker
    assert controller.tree.loses_answers == 0
    controller.clock.advance(0.1)
    assert controller.driver.is_active
    assert controller.state("t", 0).leader == 1
    assert controller.driver.image.topics["t"].partitions[0] == controller.state("t", 0)
    checked = [operations[0].path for operations in controller.tree.commits if len(operations) == 1]
    assert "/" in checked  # before it read


def test_partitions_are_added(controller: DrivenCluster) -> None:
    controller.create("t", [1])
    topic = controller.enlarge("t", {1: [2], 2: [1]})
    assert list(topic.partitions) == [0, 1, 2]
    assert controller.state("t", 1).leader == 2


def test_no_partitions_are_added_during_a_reassignment(controller: DrivenCluster) -> None:
    controller.create("t", [1])
    now(controller.driver.alter_reassignments({("t", 0): (2,)}))
    with pytest.raises(KafkaError) as raised:
        controller.enlarge("t", {1: [2]})
    assert raised.value.code is ErrorCode.REASSIGNMENT_IN_PROGRESS


def test_topics_of_format_07_are_not_reassigned(controller: DrivenCluster) -> None:
    controller.settings = ControllerSettings(keeps_one_replica=lambda topic: topic == "old")
    controller.driver.stop()
    controller.tree.expire()
    controller.tree.new_session()
    controller.driver.start()
    for name in ("old", "new"):
        controller.create(name, (1,))
    errors = now(controller.driver.alter_reassignments({("old", 0): (2,), ("new", 0): (2,)}))
    assert errors["new", 0] is None
    error = errors["old", 0]
    assert error is not None
    assert error.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert "Topic 'old' is of format 0.7 and stays on its broker: copy it" in error.detail
    assert controller.state("old", 0).replicas == (1,)


def test_archived_topics_are_reassigned_to_brokers_with_a_remote_storage(controller: DrivenCluster) -> None:
    controller.settings = ControllerSettings(is_archived=lambda topic: topic == "archived")
    controller.driver.stop()
    controller.tree.expire()
    controller.tree.new_session()
    controller.start(7, 8, has_archive=True)
    controller.driver.start()
    controller.create("archived", (1, 7))
    move = lambda *target: now(controller.driver.alter_reassignments({("archived", 0): target}))[("archived", 0)]  # noqa: E731
    error = move(7, 2)
    assert error is not None
    assert (error.code, error.detail) == (
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "Topic 'archived' is archived, and only broker(s) 7, 8 of the cluster have a remote storage: replace broker(s) "
        "2, or give them the same remote.log.storage, and restart them",
    )
    assert controller.state("archived", 0).replicas == (1, 7)
    assert move(7, 1) is None  # it was there before
    assert move(7, 8) is None
    assert set(controller.state("archived", 0).replicas) == {1, 7, 8}


def test_a_topic_is_deleted_when_its_replicas_are(controller: DrivenCluster) -> None:
    created = controller.create("t", [1, 2])
    controller.deliver()
    controller.delete("t")
    assert "t" not in controller.driver.image.topics
    assert now(controller.embedded.exists(zk_paths.topic("t"))) is not None
    controller.delete("t")
    with pytest.raises(KafkaError) as raised:
        controller.create("t", [1])
    assert raised.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
    controller.deliver()
    assert [broker.logs for broker in controller.brokers.values()] == [set(), set()]
    assert now(controller.embedded.children(zk_paths.TOPICS)) == []
    assert now(controller.embedded.children(zk_paths.DELETE_TOPICS)) == []
    controller.delete("t")
    assert now(controller.embedded.children(zk_paths.DELETE_TOPICS)) == []
    assert controller.create("t", [1]).id != created.id


def test_deletion_can_be_disabled(controller: DrivenCluster) -> None:
    controller.driver.stop()
    controller.write(Delete(zk_paths.CONTROLLER))
    controller.settings = ControllerSettings(deletes_topics=False)
    controller.driver.start()
    created = controller.create("t", [1])
    controller.delete("t")
    assert controller.driver.image.topics["t"] == created
    assert now(controller.embedded.children(zk_paths.DELETE_TOPICS)) == []


def test_changes_of_nodes_are_seen_each_time(controller: DrivenCluster) -> None:
    controller.create("t", [1, 2])
    for leader, broker in ((2, 1), (1, 2), (2, 1)):
        controller.end(broker)
        assert (controller.state("t", 0).leader, controller.state("t", 0).isr) == (leader, (leader,))
        controller.start(broker)
        state = controller.state("t", 0)
        change = WantedIsr(state.leader_epoch, state.partition_epoch, (leader, broker))
        now(controller.driver.alter_partitions(leader, controller.brokers[leader].epoch, {("t", 0): change}))
    for number in (1, 2):  # by a tool
        node = now(controller.embedded.get(zk_paths.topic("t")))
        stored = zk_schema.decode_topic(node.data)
        enlarged = zk_schema.TopicNode(stored.topic_id, {**stored.replicas, number: (1,)})
        controller.write(SetData(zk_paths.topic("t"), zk_schema.encode_topic(enlarged)))
        assert controller.state("t", number).leader == 1
    for leader in (1, 2):
        wanted = f'{{"version":1,"partitions":[{{"topic":"t","partition":0,"replicas":[{leader}]}}]}}'
        controller.write(Create(zk_paths.REASSIGN_PARTITIONS, wanted.encode()))
        state = controller.state("t", 0)
        if leader not in state.isr:
            change = WantedIsr(state.leader_epoch, state.partition_epoch, (*state.isr, leader))
            leading = controller.brokers[state.leader]
            now(controller.driver.alter_partitions(leading.id, leading.epoch, {("t", 0): change}))
        assert now(controller.embedded.exists(zk_paths.REASSIGN_PARTITIONS)) is None
        assert controller.state("t", 0).replicas == (leader,)


def test_another_controller_ends_the_term(controller: DrivenCluster) -> None:
    with logged_lines() as lines:
        controller.write(SetData(zk_paths.CONTROLLER, OTHER))
    assert lines == ["broker 0 is no longer the controller of epoch 1: /controller names another controller"]
    assert not controller.driver.is_active
    assert controller.channels[0].is_closed
    controller.write(Delete(zk_paths.CONTROLLER))
    assert controller.driver.is_active
    assert controller.driver.image.controller_id == CONTROLLER
    assert len(controller.channels) == 2


def test_an_operator_can_start_a_new_term(controller: DrivenCluster) -> None:
    controller.clock.advance(1)
    with logged_lines() as lines:
        controller.write(Delete(zk_paths.CONTROLLER))
    assert lines[1] == "broker 0 was elected controller, epoch 2"
    assert controller.driver.is_active


def test_a_fenced_write_ends_the_term(controller: DrivenCluster) -> None:
    block = now(controller.embedded.get(zk_paths.PRODUCER_ID_BLOCK)).data
    controller.write(SetData(zk_paths.CONTROLLER_EPOCH, b"7"))
    request = controller.driver.allocate_producer_ids(1, controller.brokers[1].epoch)
    assert code_of(error_of(request)) is ErrorCode.NOT_CONTROLLER
    assert now(controller.embedded.get(zk_paths.PRODUCER_ID_BLOCK)).data == block
    assert not controller.driver.is_active
    assert controller.channels[0].is_closed


def test_a_fenced_write_for_no_request_ends_the_term(controller: DrivenCluster) -> None:
    controller.write(SetData(zk_paths.CONTROLLER_EPOCH, b"7"))
    node = zk_schema.TopicNode(new_id(), {0: (1,)})
    controller.write(Create(zk_paths.topic("t"), zk_schema.encode_topic(node)))
    assert not controller.driver.is_active
    assert now(controller.embedded.exists(zk_paths.partitions("t"))) is None


def test_an_event_that_waits_when_the_session_expires_is_no_error(controller: DrivenCluster) -> None:
    controller.tree.is_suspended = True
    controller.tree.reconnect()  # the watched nodes are read, again and again
    with capturedLogs() as events:
        controller.tree.expire()
    assert [event for event in events if "log_failure" in event] == []


def test_an_expired_session_ends_the_term_at_once(controller: DrivenCluster) -> None:
    controller.tree.is_suspended = True
    waiting = begin(controller.driver.allocate_producer_ids(1, controller.brokers[1].epoch))
    behind = begin(controller.driver.list_reassignments(None))
    controller.clock.advance(1)
    assert not waiting.called
    controller.tree.expire()
    case = SynchronousTestCase()
    assert code_of(case.failureResultOf(behind, KafkaError).value) is ErrorCode.NOT_CONTROLLER
    assert not controller.driver.is_active
    assert controller.channels[0].is_closed
    controller.clock.advance(1)
    assert code_of(case.failureResultOf(waiting, KafkaError).value) is ErrorCode.NOT_CONTROLLER
    controller.tree.is_suspended = False
    controller.tree.new_session()
    controller.driver.start()
    assert controller.driver.is_active
    controller.create("t", [1])


def test_a_lost_connection_ends_no_term(controller: DrivenCluster) -> None:
    controller.create("t", [1, 2])
    controller.tree.is_suspended = True
    controller.end(1)
    controller.clock.pump([0.1] * 5)
    assert controller.state("t", 0).leader == 1
    controller.tree.is_suspended = False
    controller.clock.advance(0.1)
    assert controller.state("t", 0).leader == 2
    assert controller.driver.is_active


def test_after_a_reconnection_only_changed_nodes_are_read(controller: DrivenCluster) -> None:
    for name in ("t", "u"):
        controller.create(name, [1])
    node = zk_schema.TopicNode(new_id(), {0: (1,), 1: (2,)})
    controller.tree.is_suspended = True
    controller.write(SetData(zk_paths.topic("u"), zk_schema.encode_topic(node)))
    controller.tree.reads.clear()
    controller.tree.is_suspended = False
    controller.tree.reconnect()
    controller.clock.advance(0.1)
    assert controller.state("u", 1).leader == 2
    assert zk_paths.topic("u") in controller.tree.reads
    assert zk_paths.topic("t") not in controller.tree.reads


def test_a_failed_takeover_is_tried_again(cluster: DrivenCluster) -> None:
    cluster.write(Create(zk_paths.topic("t"), b"damaged"))
    cluster.driver.start()
    assert not cluster.driver.is_active
    assert now(cluster.embedded.exists(zk_paths.CONTROLLER)) is None
    cluster.write(Delete(zk_paths.topic("t")))
    cluster.clock.advance(1)
    assert cluster.driver.is_active


def test_a_failed_event_is_logged_and_the_next_one_handled(controller: DrivenCluster) -> None:
    with logged_lines() as lines:
        controller.write(Create(zk_paths.topic("t"), b"damaged"))
    assert "the controller could not handle an event" in lines[0]
    controller.write(Delete(zk_paths.topic("t")))
    controller.create("u", [1])


def test_leaders_are_balanced_after_five_seconds_then_periodically(tmp_path: Path) -> None:
    with opened_tree(str(tmp_path)) as tree:
        cluster = DrivenCluster(tree, balance_seconds=300)
        cluster.start(1, 2)
        cluster.driver.start()
        cluster.create("t", [1, 2])
        for seconds in (5, 300, 300):
            cluster.end(1)
            cluster.start(1)
            state = cluster.state("t", 0)
            change = WantedIsr(state.leader_epoch, state.partition_epoch, (2, 1))
            now(cluster.driver.alter_partitions(2, cluster.brokers[2].epoch, {("t", 0): change}))
            cluster.clock.advance(seconds - 1)
            assert cluster.state("t", 0).leader == 2
            cluster.clock.advance(1)
            assert cluster.state("t", 0).leader == 1
        cluster.driver.stop()
        assert cluster.clock.getDelayedCalls() == []


def test_unclean_elections_can_become_allowed(cluster: DrivenCluster) -> None:
    allowed: list[str] = []
    cluster.settings = ControllerSettings(allows_unclean_election=lambda topic: topic in allowed)
    cluster.driver.allow_unclean_elections()  # not the controller
    cluster.driver.start()
    cluster.create("t", [1, 2])
    cluster.end(1)
    cluster.end(2)
    cluster.start(1)
    assert cluster.state("t", 0).leader == -1
    allowed.append("t")
    cluster.driver.allow_unclean_elections()
    assert cluster.state("t", 0).leader == 1


def test_a_request_of_a_gone_client_is_completed(controller: DrivenCluster) -> None:
    controller.create("t", [1, 2])
    controller.tree.is_suspended = True
    change = {("t", 0): WantedIsr(0, 0, (1,))}
    waiting = begin(controller.driver.alter_partitions(1, controller.brokers[1].epoch, change))
    waiting.addErrback(lambda failure: None)
    waiting.cancel()
    controller.tree.is_suspended = False
    controller.clock.advance(0.1)
    assert controller.state("t", 0).isr == (1,)
    assert controller.create("u", [1]).name == "u"
