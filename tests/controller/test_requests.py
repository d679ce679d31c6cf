"""Requests to brokers: who gets which partition, in which order, with which epochs."""

from __future__ import annotations

import uuid

import pytest

from pylogbroker.controller.requests import (
    BrokerRequest,
    LeaderAndIsr,
    RequestBatch,
    StoppedReplica,
    StopReplica,
    UpdateMetadata,
)
from pylogbroker.metadata.delta import BrokerRegistered, BrokerUnregistered, Delta, PartitionsChanged, TopicCreated
from pylogbroker.metadata.image import (
    BrokerRegistration,
    ClusterImage,
    PartitionState,
    TopicImage,
    unstored_partition,
)
from pylogbroker.metadata.persistent_map import PersistentMap

ID = uuid.UUID(int=7)
FIRST = PartitionState(1, (1, 2), (1, 2), leader_epoch=3, partition_epoch=4, controller_epoch=5)
SECOND = PartitionState(2, (2, 3), (2, 3))
TOPIC = TopicImage("t", ID, PersistentMap({0: FIRST, 1: SECOND, 2: unstored_partition((1,))}))
IMAGE = Delta.of(*(BrokerRegistered(BrokerRegistration(n, 100 + n)) for n in (1, 2, 3)), TopicCreated(TOPIC)).apply(
    ClusterImage()
)


@pytest.fixture
def batch() -> RequestBatch:
    return RequestBatch(2, 9)


def rendered(batch: RequestBatch, image: ClusterImage = IMAGE) -> list[tuple[int, BrokerRequest]]:
    return batch.rendered(image, lambda key: [n for n in (1, 2) if n in image.brokers])


def summary(requests: list[tuple[int, BrokerRequest]]) -> list[tuple[int, str]]:
    return [(broker, type(request).__name__) for broker, request in requests]


def test_replicas_lead_and_follow_and_all_brokers_know(batch: RequestBatch) -> None:
    batch.lead_and_follow(("t", 0), (1, 2), new=(2,))
    requests = rendered(batch)
    assert summary(requests) == [
        (1, "LeaderAndIsr"),
        (2, "LeaderAndIsr"),
        (1, "UpdateMetadata"),
        (2, "UpdateMetadata"),
        (3, "UpdateMetadata"),
    ]
    first, second, *_, last = (request for _, request in requests)
    assert isinstance(first, LeaderAndIsr)
    assert isinstance(second, LeaderAndIsr)
    assert (first.controller_id, first.controller_epoch, first.broker_epoch) == (2, 9, 101)
    assert second.broker_epoch == 102
    [partition] = first.partitions
    assert (partition.topic, partition.topic_id, partition.number, partition.state) == ("t", ID, 0, FIRST)
    assert [partition.is_new for request in (first, second) for partition in request.partitions] == [False, True]
    assert first.live_leaders == (IMAGE.brokers[1],)
    assert isinstance(last, UpdateMetadata)
    assert [(each.number, each.offline_replicas) for each in last.partitions] == [(0, ())]
    assert last.live_brokers == tuple(IMAGE.brokers.values())
    assert rendered(batch) == []


def test_several_changes_of_one_partition_become_one(batch: RequestBatch) -> None:
    batch.lead_and_follow(("t", 0), (1,))
    batch.lead_and_follow(("t", 0), (1,))
    after = PartitionState(2, (1, 2), (2,), leader_epoch=5)
    image = Delta.of(PartitionsChanged("t", {0: after})).apply(IMAGE)
    _, request = rendered(batch, image)[0]
    assert isinstance(request, LeaderAndIsr)
    assert [each.state for each in request.partitions] == [after]


def test_dead_brokers_get_nothing_and_their_replicas_are_offline(batch: RequestBatch) -> None:
    image = Delta.of(BrokerUnregistered(2)).apply(IMAGE)
    batch.lead_and_follow(("t", 0), (1, 2))
    batch.lead_and_follow(("t", 1), (2, 3))
    batch.stop(2, ("t", 0), 3, delete=False)
    requests = rendered(batch, image)
    assert {broker for broker, _ in requests} == {1, 3}
    leaders = [request.live_leaders for _, request in requests if isinstance(request, LeaderAndIsr)]
    assert leaders == [(image.brokers[1],), ()]
    update = requests[-1][1]
    assert isinstance(update, UpdateMetadata)
    assert [each.offline_replicas for each in update.partitions] == [(2,), (2, 3)]
    assert [broker.id for broker in update.live_brokers] == [1, 3]


def test_partitions_without_a_state_are_left_out(batch: RequestBatch) -> None:
    batch.lead_and_follow(("t", 2), (1,))
    batch.update_metadata([("t", 9), ("x", 0)])
    requests = rendered(batch)
    assert summary(requests) == [(1, "UpdateMetadata"), (2, "UpdateMetadata"), (3, "UpdateMetadata")]
    assert all(request.partitions == () for _, request in requests if isinstance(request, UpdateMetadata))


def test_a_new_broker_gets_all_and_the_others_the_list_of_brokers(batch: RequestBatch) -> None:
    batch.update_metadata()
    batch.update_metadata_of(3, [("t", 0), ("t", 1)])
    partitions = {
        broker: [each.number for each in request.partitions]
        for broker, request in rendered(batch)
        if isinstance(request, UpdateMetadata)
    }
    assert partitions == {1: [], 2: [], 3: [0, 1]}
    batch.update_metadata_of(2, [("t", 1)])
    assert summary(rendered(batch)) == [(2, "UpdateMetadata")]


def test_brokers_that_get_the_same_metadata_share_what_is_encoded(batch: RequestBatch) -> None:
    batch.update_metadata([("t", 0)])
    batch.update_metadata_of(3, [("t", 1)])
    first, second, other = (request for _, request in rendered(batch) if isinstance(request, UpdateMetadata))
    assert first.bodies is second.bodies
    assert first.broker_epoch != second.broker_epoch
    assert other.bodies is not first.bodies


def test_stopped_replicas_are_not_sent_a_role(batch: RequestBatch) -> None:
    batch.lead_and_follow(("t", 0), (1, 2))
    batch.stop(2, ("t", 0), 3, delete=False)
    batch.stop(2, ("t", 0), 4, delete=True)
    requests = rendered(batch)
    assert (2, "LeaderAndIsr") not in summary(requests)
    broker, stop = requests[-1]
    assert (broker, stop) == (2, StopReplica(2, 9, 102, (StoppedReplica("t", 0, 4, True),)))


def test_a_topic_under_deletion_leaves_the_metadata(batch: RequestBatch) -> None:
    batch.remove_metadata(TOPIC, TOPIC.partitions)
    for _, request in rendered(batch):
        assert isinstance(request, UpdateMetadata)
        assert [(each.number, each.state.leader) for each in request.partitions] == [(0, -2), (1, -2), (2, -2)]
