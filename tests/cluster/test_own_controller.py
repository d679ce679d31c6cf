"""Brokers of Apache Kafka obey this project's controller, which is a process of its own here."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from pylogbroker.errors import ErrorCode
from pylogbroker.wire.messages.init_producer_id import InitProducerIdRequest
from tests.cluster.cluster import Cluster
from tests.cluster.members import apache
from tests.cluster.own_controller import (
    CONTROLLER,
    ControllerProcess,
    ask,
    depose_until_own,
    produce,
    running_controller,
)
from tests.support.waiting import wait_until

NewCluster = Callable[..., Cluster]
INIT_PRODUCER_ID_VERSION = 4
RELEASES = ("3.9", "2.7")


@pytest.fixture(params=RELEASES)
def release(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


@pytest.fixture
def controller(zookeeper_chroot: str, release: str) -> Iterator[ControllerProcess]:
    with running_controller(zookeeper_chroot, release) as running:
        running.process.expect("controller of 1 broker,")
        yield running


@pytest.fixture
def two_brokers(controller: ControllerProcess, new_cluster_on_zookeeper: NewCluster, release: str) -> Cluster:
    """Brokers 1 and 2 of Apache Kafka, and a controller that was there first."""
    maker = partial(apache, release=f"kafka-{release}", protocol=release)
    cluster = new_cluster_on_zookeeper(maker, maker)
    depose_until_own(cluster)  # unless its session has ended meanwhile, it is the controller still
    return cluster


def new_producer_id(address: str) -> int:
    """Return a producer id; the broker asks the controller for a block, and answers when it has one."""
    found: list[int] = []

    def is_answered() -> bool:
        answer = ask(address, InitProducerIdRequest(None), INIT_PRODUCER_ID_VERSION)
        assert answer.error_code in (0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        found.append(answer.producer_id)
        return not answer.error_code

    wait_until(is_answered)
    return found[-1]


def test_topics_from_creation_to_deletion(controller: ControllerProcess, two_brokers: Cluster) -> None:
    cluster = two_brokers
    controller.order("create", "t", [[1, 2], [2, 1]])
    assert [cluster.leader("t", number) for number in (0, 1)] == [1, 2]
    produce(cluster, "t", 0, 500)
    controller.order("enlarge", "t", 2, [1, 2])
    produce(cluster, "t", 2, 10)

    controller.reassign("t", 0, 2)
    files = cluster.members[1].data_dir
    wait_until(lambda: not (files / "t-0").exists())
    wait_until(lambda: not controller.reassigned(), what=controller.reassigned)
    assert (cluster.tree.assignment("t")[0], cluster.state("t", 0).isr) == ((2,), (2,))
    controller.reassign("t", 0, 1, 2)
    wait_until(lambda: not controller.reassigned(), what=controller.reassigned)
    assert (cluster.tree.assignment("t")[0], cluster.isr("t", 0)) == ((1, 2), [1, 2])
    assert controller.elect_preferred() == {"t": [(0, 0)]}
    produce(cluster, "t", 0, 10)
    assert len(cluster.replicas("t", 0)[1]) == 510

    ids = [new_producer_id(cluster.members[number].bootstrap) for number in (1, 2, 1)]
    assert len(set(ids)) == 3
    assert ids[2] == ids[0] + 1

    controller.order("delete", "t")
    wait_until(lambda: cluster.tree.topics() == [], what=cluster.tree.topics)
    wait_until(lambda: not (files / "t-0").exists())
    controller.order("create", "t", [[1, 2]])
    produce(cluster, "t", 0, 10)


def test_brokers_that_end_and_return(
    controller: ControllerProcess, two_brokers: Cluster, zookeeper_chroot: str, release: str
) -> None:
    cluster = two_brokers
    controller.order("create", "t", [[1, 2], [2, 1]])
    produce(cluster, "t", 0, 500)
    cluster.kill(1)
    wait_until(lambda: cluster.state("t", 0).isr == (2,))
    assert (cluster.leader("t", 0), cluster.state("t", 0).leader_epoch) == (2, 1)
    wait_until(lambda: cluster.state("t", 1).isr == (2,))
    produce(cluster, "t", 0, 10)
    cluster.start(1)
    cluster.wait_until_in_sync("t")

    assert cluster.stop(2) == 0  # by a controlled shutdown
    assert (cluster.state("t", 0).leader, cluster.state("t", 0).isr) == (1, (1,))
    produce(cluster, "t", 0, 10)
    cluster.start(2)
    cluster.wait_until_in_sync("t")

    controller.process.kill()
    wait_until(lambda: cluster.controller() in (1, 2))
    produce(cluster, "t", 0, 10)
    with running_controller(zookeeper_chroot, release):
        depose_until_own(cluster)
        cluster.kill(1)
        wait_until(lambda: cluster.state("t", 1).isr == (2,))
        assert cluster.leader("t", 0) == 2
        cluster.start(1)
        cluster.wait_until_in_sync("t")
        assert {len(records) for records in cluster.replicas("t", 0).values()} == {530}


@pytest.mark.parametrize("release", ["3.9"], indirect=True)
def test_a_controller_that_was_paused_beyond_its_session(controller: ControllerProcess, two_brokers: Cluster) -> None:
    cluster = two_brokers
    controller.order("create", "t", [[1, 2]])
    produce(cluster, "t", 0, 10)
    controller.process.signal(signal.SIGSTOP)
    wait_until(lambda: cluster.controller() in (1, 2))
    cluster.kill(1)
    wait_until(lambda: cluster.tree.brokers().keys().isdisjoint((1, CONTROLLER)))
    wait_until(lambda: cluster.controller() == 2)
    wait_until(lambda: (cluster.state("t", 0).leader, cluster.state("t", 0).isr) == (2, (2,)))
    epoch, state = cluster.tree.controller_epoch(), cluster.state("t", 0)
    controller.process.signal(signal.SIGCONT)
    controller.process.expect("no longer the controller of epoch 1")
    wait_until(lambda: CONTROLLER in cluster.tree.brokers())
    assert (cluster.tree.controller_epoch(), cluster.state("t", 0)) == (epoch, state)
    produce(cluster, "t", 0, 10)
    depose_until_own(cluster)
    cluster.start(1)
    cluster.wait_until_in_sync("t")
    assert controller.elect_preferred() == {"t": [(0, 0)]}
    produce(cluster, "t", 0, 10)
    assert {len(records) for records in cluster.replicas("t", 0).values()} == {30}
