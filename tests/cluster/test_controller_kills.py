"""This project's controller dies at each of its commits to ZooKeeper, and brokers of Apache Kafka obey the next one.

Each round begins with a controller that will die at its commit of a number, from its registration on, and tries a
topic's whole life. A successor repeats what is not done yet. Meanwhile a broker of Apache Kafka may be the controller.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from functools import partial
from itertools import count, cycle
from pathlib import Path
from typing import Final

import attrs

from tests.cluster.cluster import WAIT_SECONDS_MAX, Cluster, knows_leaders
from tests.cluster.members import apache
from tests.cluster.own_controller import ControllerProcess, depose, produce, running_controller
from tests.cluster.states import NONE
from tests.cluster.tree import Tree
from tests.support.budget import Budget
from tests.support.line_process import ProcessFailed
from tests.support.waiting import wait_until

NewCluster = Callable[..., Cluster]
KILLS: Final = 3  # unless thorough
RECORDS: Final = 20
STEP_SECONDS_MAX: Final = 180.0
REPEAT_SECONDS: Final = 10.0
DELETED: Final = "/admin/delete_topics"
IDS: Final = (3, 4, 5, 6, 7, 8)
"""A controller's id is used again once the session of its dead user has expired."""


@attrs.define
class Controllers:
    """One controller after the other, on one chroot."""

    zookeeper: str
    cluster: Cluster
    _ids: Iterator[int] = attrs.field(factory=lambda: cycle(IDS))
    _stack: ExitStack = attrs.field(factory=ExitStack)
    _number: int = NONE
    _current: ControllerProcess | None = None

    def start(self, kill: str) -> None:
        """Start a controller in the place of the present one; it may die at once."""
        self.end()
        self._number = next(self._ids)
        wait_until(lambda: self._number not in self.cluster.tree.brokers(), WAIT_SECONDS_MAX)
        try:
            self._current = self._stack.enter_context(running_controller(self.zookeeper, "3.9", self._number, kill))
        except ProcessFailed:
            self._current = None  # it died before it listened

    def end(self) -> None:
        self._stack.close()
        self._current = None

    @property
    def is_running(self) -> bool:
        return self._current is not None and self._current.process.running

    @property
    def commits(self) -> int:
        """Return the number of commits of the present controller."""
        assert self._current is not None
        return sum(line.startswith("commit ") for line in self._current.process.lines)

    def elected(self) -> ControllerProcess:
        """Return the present controller, or a successor that lives."""
        while True:
            if not self.is_running:
                self.start("before 0")
            wait_until(self._is_elected_or_dead, WAIT_SECONDS_MAX, self.cluster.controller)
            if self._current is not None and self.is_running:
                return self._current

    def _is_elected_or_dead(self) -> bool:
        controller = self.cluster.controller()
        if controller in self.cluster.members:  # not a process that may be elected right now
            depose(self.cluster)
        return not self.is_running or controller == self._number

    def do(self, step: Step) -> None:
        """Let a controller take a step, and its successor if it dies, until that is done."""
        deadline, error = time.monotonic() + STEP_SECONDS_MAX, None
        while not step.is_done():
            assert time.monotonic() < deadline, f"{step.name} is not done: {error!r}"
            controller = self.elected()
            try:
                step.ask(controller)
            except Exception as failure:  # it died, or a predecessor has begun the step
                error = failure
            with suppress(TimeoutError):
                wait_until(lambda: step.is_done() or not self.is_running, REPEAT_SECONDS)


@attrs.frozen
class Step:
    name: str
    ask: Callable[[ControllerProcess], object]
    is_done: Callable[[], bool]


def life_of(cluster: Cluster, topic: str) -> list[Step]:
    """Return the steps of a topic's life, before its deletion."""
    tree = cluster.tree

    def has_leaders(partitions: int) -> bool:
        states = [tree.state(topic, each) for each in range(partitions)]
        return all(state is not None and state.leader != NONE for state in states)

    def has_replicas(*replicas: int) -> bool:
        state = tree.state(topic, 0)
        isr = () if state is None else tuple(sorted(state.isr))
        return tree.assignment(topic).get(0) == replicas and isr == replicas and not is_moved(tree, topic)

    return [
        Step("create", lambda own: own.order("create", topic, [[1, 2], [2, 1]]), lambda: has_leaders(2)),
        Step("enlarge", lambda own: own.order("enlarge", topic, 2, [1, 2]), lambda: has_leaders(3)),
        Step("shrink", lambda own: own.reassign(topic, 0, 2), lambda: has_replicas(2)),
        Step("grow", lambda own: own.reassign(topic, 0, 1, 2), lambda: has_replicas(1, 2)),
        Step("elect", lambda own: own.elect_preferred(), lambda: cluster.leader(topic, 0) == 1),
    ]


def is_moved(tree: Tree, topic: str) -> bool:
    """Return whether replicas of a topic are added or removed."""
    found = tree.read(f"/brokers/topics/{topic}")
    return found is not None and bool(found[0]["adding_replicas"] or found[0]["removing_replicas"])


def check_whole(cluster: Cluster, topic: str) -> None:
    """Check that all replicas are in sync, that both brokers know the leaders, and that these lead."""
    cluster.wait_until_in_sync(topic)
    for member in cluster.members.values():
        wait_until(partial(knows_leaders, member.bootstrap, topic), WAIT_SECONDS_MAX)
    for partition in range(3):
        produce(cluster, topic, partition, RECORDS)
    assert {len(records) for records in cluster.replicas(topic, 0).values()} == {RECORDS}


def logs_of(cluster: Cluster, topic: str) -> list[Path]:
    return [path for member in cluster.members.values() for path in member.data_dir.glob(f"{topic}[-_][0-9]")]


def live(controllers: Controllers, topic: str) -> None:
    cluster = controllers.cluster
    for step in life_of(cluster, topic):
        controllers.do(step)
    check_whole(cluster, topic)

    def is_deleted() -> bool:
        return topic not in cluster.tree.topics() and topic not in cluster.tree.client.get_children(DELETED)

    controllers.do(Step("delete", lambda own: own.order("delete", topic), is_deleted))
    wait_until(lambda: not logs_of(cluster, topic), WAIT_SECONDS_MAX, lambda: logs_of(cluster, topic))


def test_a_controller_that_dies_at_each_commit(
    new_cluster_on_zookeeper: NewCluster, zookeeper_chroot: str, budget: Budget
) -> None:
    """Kill before or after a commit: what else is sent at the same time has come or not."""
    cluster = new_cluster_on_zookeeper(apache, apache)
    controllers = Controllers(zookeeper_chroot, cluster)
    chance, names = budget.chance("kills of the controller"), count()
    with controllers._stack:
        controllers.start("before 0")
        live(controllers, f"t{next(names)}")
        commits = range(1, controllers.commits + 1)
        print(f"{len(commits)} commits")
        for number in commits if budget.thorough else sorted(chance.sample(commits, KILLS)):
            kill = f"{chance.choice(('before', 'after'))} {number}"
            print(kill)
            controllers.start(kill)
            live(controllers, f"t{next(names)}")
