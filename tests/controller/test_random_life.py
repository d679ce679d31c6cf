"""Random lives of a cluster: brokers die, bounce, lose disks; topics come, move and go; controllers are replaced.

Invariants are checked at each write. At the end everything heals, and the cluster must come to rest in a good state.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import attrs
import pytest

from pylogbroker.controller.controller import ClusterController
from pylogbroker.controller.isr_changes import WantedIsr
from pylogbroker.controller.ports import ControllerSettings
from pylogbroker.controller.requested_elections import ElectionKind
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.interfaces import Create, SetData
from pylogbroker.metadata import zk_paths, zk_schema
from pylogbroker.metadata.image import PartitionKey, PartitionState
from pylogbroker.metadata.inter_broker_protocol import NEWEST_PROTOCOL, InterBrokerProtocol
from pylogbroker.metadata.zk_image import encode_state
from tests.controller.invariants import Invariants, catch_up, check_leaderships, check_quiet
from tests.controller.memory_tree import Fault, Killed
from tests.controller.small_cluster import Channels, SmallCluster
from tests.metadata.partition_lists import encode_partition_list
from tests.support.examples import examples
from tests.tree.conftest import now

BROKERS = (1, 2, 3, 4)
STEPS = 150


@attrs.define(eq=False)
class RandomLife:
    seed: int
    log: list[str] = attrs.field(factory=list)
    former: list[tuple[ClusterController, Channels]] = attrs.field(factory=list)
    """Controllers that were deposed and do not know it."""
    leaving: set[int] = attrs.field(factory=set)
    """Brokers that have announced their shutdown at some time."""
    topics_made: int = 0
    random: random.Random = attrs.field(init=False)
    cluster: SmallCluster = attrs.field(init=False)
    invariants: Invariants = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.random = random.Random(self.seed)
        release = self.random.choice([NEWEST_PROTOCOL, InterBrokerProtocol.parse("2.7")])
        settings = ControllerSettings(release, allows_unclean_election=lambda topic: topic == "unclean")
        self.cluster = SmallCluster(settings)
        self.invariants = Invariants.watch(self.cluster)
        self.cluster.start(*BROKERS)
        self.cluster.elect(1)

    # -- choices

    def broker(self) -> int | None:
        return self.random.choice(sorted(self.cluster.brokers)) if self.cluster.brokers else None

    def partition(self) -> tuple[PartitionKey, PartitionState] | None:
        states = self.cluster.states()
        return self.random.choice(sorted(states.items())) if states else None

    def replicas(self) -> tuple[int, ...]:
        return tuple(self.random.sample(BROKERS, self.random.randint(1, 3)))

    # -- steps

    def kill(self) -> None:
        broker = self.broker()
        if broker is not None and len(self.cluster.brokers) > 1:
            self.cluster.kill(broker)

    def start(self) -> None:
        dead = [broker for broker in BROKERS if broker not in self.cluster.brokers]
        if dead:
            self.cluster.start(self.random.choice(dead))

    def bounce(self) -> None:
        broker = self.broker()
        if broker is not None:
            self.cluster.bounce(broker)

    def shut_down(self) -> None:
        broker = self.broker()
        if broker is not None:
            self.leaving.add(broker)
            epoch = self.cluster.brokers[broker].epoch
            self.cluster.ask(lambda controller: controller.shut_down_broker(broker, epoch))

    def lose_disk(self) -> None:
        broker = self.broker()
        if broker is not None and self.cluster.brokers[broker].replicas:
            failed = self.random.choice(sorted(self.cluster.brokers[broker].replicas))
            self.cluster.brokers[broker].failed.add(failed)
            event = Create("/log_dir_event_notification/log_dir_event_", zk_schema.encode_log_dir_event(broker))
            self.sequential(event)

    def sequential(self, create: Create) -> None:
        self.topics_made += 1
        self.cluster.tree.apply([attrs.evolve(create, path=f"{create.path}{self.topics_made:010}")])

    def create_topic(self) -> None:
        name = self.random.choice(["a", "b", "c", "unclean"])
        if self.cluster.tree.node(zk_paths.topic(name)) is None:
            rows = [self.replicas() for _ in range(self.random.randint(1, 3))]
            self.cluster.create_topic(name, rows)

    def add_partition(self) -> None:
        names = self.cluster.tree.names("/brokers/topics")
        if names:
            name = self.random.choice(names)
            if len(self.cluster.topic(name).replicas) < 5:
                self.cluster.add_partition(name, self.replicas())

    def delete_topic(self) -> None:
        name = self.random.choice(["a", "b", "c", "unclean", "missing"])
        if self.cluster.tree.node(zk_paths.deleted_topic(name)) is None:
            self.cluster.mark_deleted(name)

    def reassign(self) -> None:
        chosen = self.partition()
        if chosen:
            target = None if self.random.random() < 0.3 else self.replicas()
            self.cluster.ask(lambda controller: controller.alter_reassignments({chosen[0]: target}))

    def list_reassignment(self) -> None:
        chosen = self.partition()
        if chosen and self.cluster.tree.node(zk_paths.REASSIGN_PARTITIONS) is None:
            wanted = zk_schema.encode_reassignments({chosen[0]: self.replicas()})
            self.cluster.tree.apply([Create(zk_paths.REASSIGN_PARTITIONS, wanted)])

    def alter_isr(self) -> None:
        chosen = self.partition()
        if not chosen or not chosen[1].is_stored:
            return
        key, state = chosen
        sender = self.cluster.brokers.get(state.leader)
        if sender is None:
            return
        known = sender.replicas.get(key, state) if self.random.random() < 0.2 else state
        members = [broker for broker in state.replicas if broker == sender.id or self.random.random() < 0.8]
        change = WantedIsr(known.leader_epoch, known.partition_epoch, tuple(members))
        answer = self.cluster.ask(
            lambda controller: controller.alter_partitions(sender.id, sender.epoch, {key: change})
        )
        if isinstance(answer, dict) and isinstance(answer[key], PartitionState):
            assert set(answer[key].isr) == set(members)

    def alter_isr_by_tree(self) -> None:
        """Change an ISR as leaders below release 2.7 do."""
        chosen = self.partition()
        if chosen and chosen[1].leader in self.cluster.brokers and chosen[1].is_stored:
            key, state = chosen
            members = tuple(
                broker
                for broker in state.replicas
                if broker == state.leader or (broker in self.cluster.brokers and self.random.random() < 0.7)
            )
            data = encode_state(attrs.evolve(state, isr=members))
            self.cluster.tree.apply([SetData(zk_paths.partition_state(*key), data, state.partition_epoch)])
            self.sequential(Create("/isr_change_notification/isr_change_", encode_partition_list([key])))

    def elect_leaders(self) -> None:
        kind = self.random.choice(list(ElectionKind))
        self.cluster.ask(lambda controller: controller.elect_leaders(kind))

    def balance(self) -> None:
        self.cluster.ask(lambda controller: controller.balance_leaders())

    def allocate(self) -> None:
        broker = self.broker()
        if broker is not None:
            epoch = self.cluster.brokers[broker].epoch
            self.cluster.ask(lambda controller: controller.allocate_producer_ids(broker, epoch))

    def elect(self) -> None:
        broker = self.broker()
        if broker is not None and self.cluster.controller is None:
            self.cluster.elect(broker)

    def depose(self) -> None:
        """Let another controller be elected while the present one goes on."""
        if self.cluster.controller is not None:
            self.former.append((self.cluster.controller, self.cluster.channels))
            self.cluster.remove_controller_node()
            self.cluster.controller = None
            self.elect()

    def act_as_former(self) -> None:
        """Let a deposed controller act, after its successor's election: nothing it writes takes effect."""
        if not self.former:
            return
        controller, channels = self.random.choice(self.former)
        queues = [broker for broker, queue in sorted(channels.queues.items()) if queue]
        if queues and self.random.random() < 0.7:
            broker = self.random.choice(queues)
            request = channels.queues[broker].pop(0)
            if broker in self.cluster.brokers:
                self.cluster.brokers[broker].receive(request)
            return
        if self.cluster.tree.node(zk_paths.CONTROLLER) is None:
            return  # no successor yet
        before = {path: entry.version for path, entry in self.cluster.tree.entries.items()}
        acts: list[Callable[[], object]] = [
            lambda: now(controller.on_node_changed(zk_paths.BROKER_IDS)),
            lambda: now(controller.on_node_changed(zk_paths.TOPICS)),
            lambda: now(controller.on_node_changed(zk_paths.DELETE_TOPICS)),
            lambda: now(controller.on_node_changed(zk_paths.CONTROLLER)),
            lambda: now(controller.elect_leaders(ElectionKind.PREFERRED)),
            lambda: now(controller.balance_leaders()),
        ]
        code = None
        try:
            self.random.choice(acts)()
        except KafkaError as error:
            code = error.code
        except Killed:
            self.former = [each for each in self.former if each[0] is not controller]
        assert code in (None, ErrorCode.NOT_CONTROLLER)
        assert before == {path: entry.version for path, entry in self.cluster.tree.entries.items()}

    def deliver(self) -> None:
        waiting = self.cluster.waiting_requests()
        if waiting:
            self.cluster.deliver_request(self.random.choice(waiting))

    def deliver_watch(self) -> None:
        if self.cluster.changed and self.cluster.controller is not None:
            self.cluster.deliver_watch(self.random.choice(list(self.cluster.changed)))

    def fault(self) -> None:
        """Let one of the controller's next writes fail."""
        number = self.cluster.transactions + self.random.randint(0, 4)
        self.cluster.faults[number] = self.random.choice(list(Fault))

    def live(self, steps: int) -> None:
        weights: dict[Callable[[], None], int] = {
            self.kill: 4,
            self.start: 8,
            self.bounce: 2,
            self.shut_down: 2,
            self.lose_disk: 1,
            self.create_topic: 5,
            self.add_partition: 2,
            self.delete_topic: 2,
            self.reassign: 6,
            self.list_reassignment: 1,
            self.alter_isr: 14,
            self.alter_isr_by_tree: 2,
            self.elect_leaders: 2,
            self.balance: 1,
            self.allocate: 1,
            self.elect: 8,
            self.depose: 1,
            self.act_as_former: 3,
            self.deliver: 25,
            self.deliver_watch: 25,
            self.fault: 2,
        }
        for step in self.random.choices(list(weights), list(weights.values()), k=steps):
            self.log.append(step.__name__)
            step()

    def heal(self) -> None:
        cluster = self.cluster
        cluster.faults = {}
        cluster.start(*(broker for broker in BROKERS if broker not in cluster.brokers))
        for broker in BROKERS:
            if cluster.brokers[broker].failed or broker in self.leaving:
                cluster.bounce(broker)
        for _ in range(5):
            self.elect()
            catch_up(cluster)
            cluster.ask(lambda controller: controller.balance_leaders())
        check_quiet(cluster)
        assert all(state.leader == state.replicas[0] for state in cluster.states().values())
        check_leaderships(self.cluster)


@pytest.mark.parametrize("part", range(4))
def test_random_lives(part: int) -> None:
    for seed in range(part, examples(200), 4):
        life = RandomLife(seed)
        try:
            life.live(STEPS)
            life.heal()
        except BaseException:
            print(f"seed {seed}: {' '.join(life.log)}")
            raise
        assert life.invariants.checked
