"""A controller that dies, or loses its connection, at each of its writes: the next one brings all to the same end."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pylogbroker.interfaces import Create
from pylogbroker.metadata import zk_schema
from tests.controller.invariants import Invariants, catch_up, check_leaderships, check_quiet
from tests.controller.memory_tree import Fault
from tests.controller.small_cluster import SmallCluster
from tests.support.budget import Budget

BROKERS = (1, 2, 3, 4)
Step = Callable[[SmallCluster], object]


def control(cluster: SmallCluster) -> None:
    """Elect a controller if there is none, and start brokers that a fault has killed."""
    for _ in range(10):
        if cluster.controller is None:
            next((broker for broker in sorted(cluster.brokers) if cluster.elect(broker)), None)
        restart(cluster, *cluster.crashed)
        cluster.crashed.clear()
    assert cluster.controller


def alive(cluster: SmallCluster, broker: int) -> bool:
    return broker in cluster.brokers


def reassign(cluster: SmallCluster, target: tuple[int, ...] | None) -> None:
    cluster.ask(lambda controller: controller.alter_reassignments({("a", 0): target}))


def shut_down(cluster: SmallCluster, broker: int) -> None:
    if alive(cluster, broker):
        epoch = cluster.brokers[broker].epoch
        cluster.ask(lambda controller: controller.shut_down_broker(broker, epoch))


def restart(cluster: SmallCluster, *brokers: int) -> None:
    cluster.start(*(broker for broker in brokers if not alive(cluster, broker)))


def legacy_reassignment(cluster: SmallCluster) -> None:
    wanted = zk_schema.encode_reassignments({("a", 1): (4, 1)})
    cluster.tree.apply([Create("/admin/reassign_partitions", wanted)])


STEPS: list[Step] = [
    lambda cluster: cluster.create_topic("a", [(1, 2, 3), (2, 3, 4)]),
    lambda cluster: cluster.create_topic("b", [(3, 4), (4, 1), (2, 1)]),
    lambda cluster: cluster.add_partition("a", (4, 3, 1)),
    lambda cluster: alive(cluster, 2) and cluster.kill(2),
    lambda cluster: restart(cluster, 2),
    catch_up,
    lambda cluster: reassign(cluster, (4, 3)),
    catch_up,
    lambda cluster: reassign(cluster, (2, 1)),
    lambda cluster: reassign(cluster, None),
    lambda cluster: reassign(cluster, (1, 2)),
    lambda cluster: reassign(cluster, (3, 2, 1)),
    catch_up,
    legacy_reassignment,
    catch_up,
    lambda cluster: alive(cluster, 3) and cluster.bounce(3),
    lambda cluster: shut_down(cluster, 4),
    lambda cluster: alive(cluster, 4) and cluster.kill(4),
    lambda cluster: cluster.mark_deleted("b"),
    lambda cluster: restart(cluster, *BROKERS),
    lambda cluster: cluster.ask(lambda controller: controller.balance_leaders()),
]


def live(faults: dict[int, Fault]) -> SmallCluster:
    cluster = SmallCluster(faults=faults)
    Invariants.watch(cluster)
    cluster.start(*BROKERS)
    for step in STEPS:
        control(cluster)
        step(cluster)
        control(cluster)
        cluster.settle()
    cluster.faults = {}
    restart(cluster, *BROKERS)
    for _ in range(3):
        control(cluster)
        catch_up(cluster)
        # what an administrator repeats if the controller died before it began
        reassign(cluster, (3, 2, 1))
        cluster.ask(lambda controller: controller.balance_leaders())
        cluster.settle()
    check_quiet(cluster)
    check_leaderships(cluster)
    assert set(cluster.states()) == {("a", 0), ("a", 1), ("a", 2)}
    assert not [path for path in cluster.tree.entries if "/b" in path.replace("/brokers", "")]
    assert cluster.topic("a").replicas == {0: (3, 2, 1), 1: (4, 1), 2: (4, 3, 1)}
    return cluster


def test_without_faults() -> None:
    cluster = live({})
    assert cluster.transactions > 60
    assert all(state.leader == state.replicas[0] for state in cluster.states().values())


@pytest.mark.parametrize("fault", Fault)
def test_a_fault_at_each_write(fault: Fault, budget: Budget) -> None:
    for number in budget.some(range(live({}).transactions), f"writes with {fault}"):
        live({number: fault})


def test_several_faults(budget: Budget) -> None:
    for first in budget.all_or_some(range(0, live({}).transactions, 7), "several faults"):
        live({first: Fault.KILL_AFTER, first + 3: Fault.UNKNOWN_NOT_DONE, first + 5: Fault.KILL_BEFORE})
