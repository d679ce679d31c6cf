"""Links between brokers of this project are cut while clients work: nothing acknowledged is lost or changed.

`tests/cluster/run.py` cuts links at random, together with other faults.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from confluent_kafka import ElectionType, KafkaException

from tests.cluster.cluster import Cluster
from tests.cluster.faults import PARTITIONS, SETTINGS
from tests.cluster.members import own
from tests.cluster.network import ZOOKEEPER, Network
from tests.cluster.states import NONE
from tests.cluster.traffic import WAIT_SECONDS_MAX, Traffic
from tests.crash.workloads import Topic
from tests.support.waiting import wait_until


def cut_leader_from_followers(cluster: Cluster, network: Network, topic: str) -> None:
    """The leader is the controller, so that it can shrink its ISR to itself; then it acknowledges nothing."""
    leader = cluster.wait_for_controller()
    partition = led_by(cluster, topic, leader)
    network.isolate(leader, cluster.members.keys() - {leader})
    wait_for_isr(cluster, topic, partition, leader)


def cut_controller_from_a_broker(cluster: Cluster, network: Network, topic: str) -> None:
    """That broker does not learn that a leader has died, thus does not follow the next one: the controller."""
    controller = cluster.wait_for_controller()
    assigned = cluster.tree.assignment(topic).values()  # the second replica is the next leader
    [(victim, absent)] = [(first, last) for first, second, last in assigned if second == controller]
    partition = led_by(cluster, topic, victim)
    network.isolate(absent, [controller])
    cluster.kill(victim)
    wait_for_isr(cluster, topic, partition, controller)
    network.heal()
    cluster.start(victim)


def cut_controller_from_zookeeper(cluster: Cluster, network: Network, topic: str) -> None:
    """The others elect a controller and leaders, and go on."""
    deposed = cluster.wait_for_controller()
    partition = led_by(cluster, topic, deposed)
    network.isolate(deposed, [ZOOKEEPER])
    wait_until(lambda: cluster.controller() not in (NONE, deposed), WAIT_SECONDS_MAX)
    cluster.wait_for_leader(topic, partition, other_than=deposed)


def wait_for_isr(cluster: Cluster, topic: str, partition: int, leader: int) -> None:
    """Wait until the ISR is a leader that is the controller too; on a busy machine, its session may end instead."""

    def is_alone() -> bool:
        state = cluster.state(topic, partition)
        return (state.leader, state.isr) == (leader, (leader,)) or cluster.controller() != leader

    wait_until(is_alone, WAIT_SECONDS_MAX, what=lambda: cluster.state(topic, partition))


def lead_as_assigned(cluster: Cluster, topic: str) -> None:
    """Let the first replica of each partition lead it, though sessions of brokers may have ended on a busy machine."""

    def is_led() -> bool:
        with suppress(KafkaException):  # the controller has changed
            cluster.admin.elect_leaders(ElectionType.PREFERRED).result(WAIT_SECONDS_MAX)
        leaders = {each: cluster.leader(topic, each) for each in cluster.tree.assignment(topic)}
        return leaders == {each: replicas[0] for each, replicas in cluster.tree.assignment(topic).items()}

    wait_until(is_led, WAIT_SECONDS_MAX)


def led_by(cluster: Cluster, topic: str, broker: int) -> int:
    """Return a partition that a broker leads, or the first one."""
    partitions = [*cluster.tree.assignment(topic)]
    return next((each for each in partitions if cluster.leader(topic, each) == broker), partitions[0])


def test_cut_links_between_three_brokers_lose_nothing(
    new_cluster_on_zookeeper: Callable[..., Cluster], topic: str
) -> None:
    network = Network()
    cluster = new_cluster_on_zookeeper(own, own, own, settings=SETTINGS, network=network)
    with Traffic(cluster, [Topic(topic, PARTITIONS)], seed=1) as traffic:
        for cut in (cut_leader_from_followers, cut_controller_from_a_broker, cut_controller_from_zookeeper):
            traffic.wait_for_acknowledgements(100)
            lead_as_assigned(cluster, topic)
            cut(cluster, network, topic)
            network.heal()
            traffic.wait_until_in_sync()
            traffic.check()
        traffic.wait_for_acknowledgements(100)
    assert traffic.violations() == []
