"""Steps of the model and their weights: what brokers, the controller, clients and faults do at random."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

import attrs

from pylogbroker.errors import ErrorCode, KafkaError
from tests.replication.cluster import AlterAnswer, AlterRequest, Cluster, PendingProduce
from tests.replication.model_broker import Answer, ModelBroker, Question
from tests.replication.model_controller import Push
from tests.replication.setup import CONTROLLER, LAG_TIME_MAX_MS

Step = Callable[[Cluster], None]
_PENDING_PRODUCES_MAX: Final = 8


def run(cluster: Cluster, steps: int, observe: Callable[[Step], None] | None = None) -> None:
    """Take random steps, and check after each; then end the faults. Raises Violation."""
    weights = _weights_of(cluster)
    for step in cluster.rng.choices(tuple(weights), tuple(weights.values()), k=steps):
        cluster.steps += 1
        step(cluster)
        cluster.check()
        if observe is not None:
            observe(step)
    cluster.heal()


# Network


def deliver(cluster: Cluster) -> None:
    if cluster.messages:
        cluster.deliver(cluster.take_message())
    else:
        poll(cluster)


def poll(cluster: Cluster) -> None:
    askers = [broker for broker in cluster.brokers if broker.follower is not None and broker.follower.in_flight is None]
    if askers:
        askers[int(cluster.rng.random() * len(askers))].poll()


def lose_message(cluster: Cluster) -> None:
    """Lose a connection with a request or an answer."""
    if not cluster.messages:
        return
    message = cluster.take_message()
    if isinstance(message, AlterRequest):
        if cluster.rng.random() < 0.5:
            cluster.alter_partition(message)
        cluster.messages.append(AlterAnswer(message, ErrorCode.NETWORK_EXCEPTION, cluster.controller.stored))
    elif isinstance(message, AlterAnswer):
        cluster.messages.append(attrs.evolve(message, error=ErrorCode.NETWORK_EXCEPTION))
    else:
        question = message if isinstance(message, Question) else message.question
        cluster.messages.append(Answer(question, ErrorCode.NETWORK_EXCEPTION))


def repeat_message(cluster: Cluster) -> None:
    """Deliver a message between brokers twice. Messages with the controller come once, or their loss is noticed."""
    if cluster.messages:
        message = cluster.messages[int(cluster.rng.random() * len(cluster.messages))]
        if isinstance(message, Question | Answer):
            cluster.deliver(message)


def deliver_late(cluster: Cluster) -> None:
    if cluster.late:
        cluster.deliver(cluster.late.pop(int(cluster.rng.random() * len(cluster.late))))


def push(cluster: Cluster) -> None:
    """Deliver a state to a broker: in order for each controller, perhaps twice."""
    pushes = cluster.controller.pushes
    waiting = [broker for broker in cluster.brokers if pushes[broker.id] and cluster.is_linked(broker.id, CONTROLLER)]
    if not waiting:
        return
    broker = cluster.rng.choice(waiting)
    queue = pushes[broker.id]
    for _ in range(cluster.rng.randint(1, len(queue)) if cluster.rng.random() < 0.5 else 1):
        _push(cluster, broker, queue)


def _push(cluster: Cluster, broker: ModelBroker, queue: deque[Push]) -> None:
    index = 0
    if cluster.rng.random() < 0.3:  # the connections of two controllers race
        newest = queue[-1].controller_epoch
        index = next(place for place, each in enumerate(queue) if each.controller_epoch == newest)
    if broker.runs:
        broker.take(queue[index])
    if cluster.rng.random() < 0.9 or not broker.runs:
        del queue[index]


def cut_link(cluster: Cluster) -> None:
    ends = cluster.rng.sample(range(CONTROLLER, cluster.setup.brokers), 2)
    cluster.cut_links.append((min(ends), max(ends)))


def mend_link(cluster: Cluster) -> None:
    if cluster.cut_links:
        del cluster.cut_links[cluster.rng.randrange(len(cluster.cut_links))]


# Clients


def produce(cluster: Cluster) -> None:
    leaders = [broker for broker in cluster.brokers if broker.leader is not None]
    if not leaders:
        return
    broker = cluster.rng.choice(leaders)
    role = broker.leader
    assert role is not None
    acks_all = cluster.rng.random() < 0.6
    if acks_all:
        try:
            role.check_enough_replicas()
        except KafkaError:
            return
    records = [(role.leader_epoch, cluster.next_value + index) for index in range(cluster.rng.randint(1, 3))]
    cluster.next_value += len(records)
    first = broker.log.log_end_offset
    cluster.invariants.appended(broker, first, records)
    if acks_all and len(cluster.pending) < _PENDING_PRODUCES_MAX:
        cluster.pending.append(PendingProduce(broker, role, first, records))
    broker.append(records)


def delete_records(cluster: Cluster) -> None:
    leaders = [broker for broker in cluster.brokers if broker.leader is not None]
    if leaders:
        broker = cluster.rng.choice(leaders)
        assert broker.leader is not None
        broker.log.start_at(cluster.rng.randint(broker.log.log_start_offset, broker.leader.high_watermark))


# Brokers


def sync(cluster: Cluster) -> None:
    broker = cluster.any_running()
    if broker is not None:
        broker.sync()


def pass_time(cluster: Cluster) -> None:
    cluster.now_ms += cluster.rng.randrange(LAG_TIME_MAX_MS // 2)
    for broker in cluster.brokers:
        broker.tick()


def checkpoint(cluster: Cluster) -> None:
    for broker in cluster.brokers:
        if broker.replica is not None:
            broker.checkpoint = broker.replica.high_watermark


def crash(cluster: Cluster) -> None:
    """Crash a broker, often one that is about to join the ISR."""
    broker = cluster.any_joining() if cluster.rng.random() < 0.5 else None
    broker = broker or cluster.any_running()
    if broker is None or (cluster.lossy and not cluster.survives_without(broker)):
        return
    log = broker.log
    end = log.log_end_offset
    if cluster.rng.random() < 0.5 and cluster.may_lose_records(broker):
        end = cluster.rng.randint(max(log.on_disk, log.log_start_offset), end)
        cluster.lossy.add(broker.id)
    cluster.stop(broker, end)


def restart(cluster: Cluster) -> None:
    stopped = [broker for broker in cluster.brokers if not broker.runs]
    if stopped:
        broker = cluster.rng.choice(stopped)
        broker.start(cluster.controller.register(broker.id))


def expire_session(cluster: Cluster) -> None:
    broker = cluster.rng.choice(cluster.brokers)
    if not broker.runs or not cluster.lossy or cluster.survives_without(broker):
        cluster.controller.expire(broker.id)


def renew_session(cluster: Cluster) -> None:
    """Register a broker again that lost its session and lives."""
    for broker in cluster.brokers:
        if broker.runs and broker.id not in cluster.controller.registrations:
            broker.epoch = cluster.controller.register(broker.id)
            return


# Controller


def process_brokers(cluster: Cluster) -> None:
    cluster.controller.process_brokers()


def fail_over(cluster: Cluster) -> None:
    if not cluster.lossy:
        cluster.controller.fail_over()


def move_leadership(cluster: Cluster) -> None:
    cluster.controller.move_leadership(cluster.rng.choice(cluster.controller.stored.isr))


def reassign(cluster: Cluster) -> None:
    count = cluster.setup.brokers
    cluster.controller.reassign(tuple(cluster.rng.sample(range(count), cluster.setup.replicas)))


def finish_reassignment(cluster: Cluster) -> None:
    cluster.controller.finish_reassignment()


def shut_down(cluster: Cluster) -> None:
    """Stop a broker in order; its session ends at once."""
    broker = cluster.any_running()
    if broker is None or broker.epoch != cluster.controller.known.get(broker.id):
        return
    if cluster.lossy and not cluster.survives_without(broker):
        return
    if cluster.controller.shut_down(broker.id) and cluster.rng.random() < 0.7:
        broker.sync()
        cluster.stop(broker, broker.log.log_end_offset)
        cluster.controller.expire(broker.id)


STEPS: Final[tuple[tuple[Step, int], ...]] = (
    (deliver, 400),
    (poll, 260),
    (produce, 70),
    (push, 80),
    (sync, 40),
    (pass_time, 20),
    (process_brokers, 30),
    (checkpoint, 5),
    (restart, 30),
    (renew_session, 20),
    (finish_reassignment, 5),
    (mend_link, 4),
)


FAULTS: Final[tuple[tuple[Step, int], ...]] = (
    (lose_message, 12),
    (repeat_message, 12),
    (deliver_late, 12),
    (crash, 5),
    (expire_session, 3),
    (fail_over, 2),
    (move_leadership, 8),
    (delete_records, 2),
    (reassign, 2),
    (shut_down, 2),
    (cut_link, 5),
)
"""With the weights of the wildest runs."""


def _weights_of(cluster: Cluster) -> Mapping[Step, float]:
    """Choose weights: a run with few kinds of faults, but many of them, finds what others do not."""
    rng, setup = cluster.rng, cluster.setup
    weights: dict[Step, float] = dict(STEPS)
    weights[deliver] /= setup.message_delay
    weights[push] /= setup.push_delay
    return weights | {fault: weight * setup.faults * rng.choice((0, 1, 1, 4)) for fault, weight in FAULTS}
