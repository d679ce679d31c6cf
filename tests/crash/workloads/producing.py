"""Producers of three clients: every codec, acknowledgements 1 and all, idempotent and not, with retries and without."""

from __future__ import annotations

import random
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import attrs

from tests.crash.checks import Violation
from tests.crash.history import Promise, Sent
from tests.crash.workloads import RunContext, Topic, persistently
from tests.crash.workloads.senders import Delivered, Sender, aiokafka, confluent, kafka_python

ROLLING: Final = Topic("rolling", 3, {"segment.bytes": "30000", "index.interval.bytes": "500"})
FLUSHED: Final = Topic("flushed", 2, {"flush.messages": "1", "segment.bytes": "20000"})
OLD: Final = Topic("old-format", 1, {"message.format.version": "0.10.2", "segment.bytes": "30000"})
_MOST_UNANSWERED: Final = 300  # records that a producer has under way at most
_BURSTS_PER_SECOND: Final = 12  # of a producer: the run is to be about crashes, not about bytes


@attrs.frozen
class Plan:
    """One producer."""

    name: str
    client: Callable[..., Sender]
    promise: Promise
    acks: str
    codec: str
    topics: tuple[Topic, ...] = (ROLLING, FLUSHED)


ONCE, AT_MOST, AT_LEAST = Promise.ONCE, Promise.AT_MOST_ONCE, Promise.AT_LEAST_ONCE
PLANS: Final = (
    Plan("rd-once-zstd", confluent, ONCE, "all", "zstd"),
    Plan("rd-once-none", confluent, ONCE, "all", "none"),
    Plan("rd-retry-snappy", confluent, AT_LEAST, "1", "snappy"),
    Plan("rd-retry-gzip", confluent, AT_LEAST, "all", "gzip", (ROLLING, OLD)),
    Plan("rd-try-lz4", confluent, AT_MOST, "1", "lz4", (FLUSHED,)),
    Plan("rd-try-none", confluent, AT_MOST, "all", "none", (ROLLING, OLD)),
    Plan("py-once-lz4", kafka_python, ONCE, "all", "lz4"),
    Plan("py-retry-zstd", kafka_python, AT_LEAST, "1", "zstd", (ROLLING,)),
    Plan("py-try-none", kafka_python, AT_MOST, "1", "none"),
    Plan("aio-once-gzip", aiokafka, ONCE, "all", "gzip"),
    Plan("aio-retry-none", aiokafka, AT_LEAST, "1", "none", (ROLLING,)),
)


class Producing:
    """All producers of `plans`; each is a thread that hands its client records in bursts."""

    over = False

    def __init__(self, plans: Sequence[Plan] = PLANS) -> None:
        self._plans = plans
        self._running: list[_Running] = []

    def topics(self) -> list[Topic]:
        return list({topic.name: topic for plan in self._plans for topic in plan.topics}.values())

    def start(self, context: RunContext) -> None:
        self._running = [_Running(plan, context) for plan in self._plans]

    def check(self, context: RunContext, *, settled: bool) -> Iterator[Violation]:
        """Check that the producers still work; the history has everything else."""
        for problem in self.problems():
            yield Violation("harness", problem)

    def problems(self) -> list[str]:
        """Return why producers have ended early."""
        return [f"{one.plan.name}: {one.problem}" for one in self._running if one.problem]

    def figures(self) -> dict[str, int | float]:
        return {}

    def finish(self, seconds: float) -> None:
        for one in self._running:
            one.timeout = seconds
            one.ending.set()
        for one in self._running:
            one.thread.join(2 * seconds)


class _Running:
    """A producer at work."""

    def __init__(self, plan: Plan, context: RunContext) -> None:
        self.plan, self._world = plan, context
        self.ending = threading.Event()
        self.timeout = 0.0
        self.problem = ""
        self._chance = random.Random(context.chance.random())
        self._open = 0
        self._counting = threading.Lock()
        keys = [key for topic in plan.topics for key in topic.partition_keys]
        self._sent = [context.history.sender(plan.name, key, plan.promise) for key in keys]
        self.thread = threading.Thread(target=self._run, name=plan.name, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            plan = self.plan
            sender = persistently(lambda: plan.client(self._world.bootstrap, plan.promise, plan.acks, plan.codec))
            while not self.ending.is_set():
                self._burst(sender)
                sender.work(self._chance.expovariate(_BURSTS_PER_SECOND))
                self._hold_back(sender)
            sender.close(self.timeout)
        except Exception as error:
            self.problem = "".join(traceback.format_exception(error))

    def _burst(self, sender: Sender) -> None:
        sent = self._chance.choice(self._sent)
        for _ in range(self._chance.choice((1, 1, 2, 5, 20))):
            stamp = sent.begin(self._world.history.life)
            filling = "x" * (10_000 if self._chance.random() < 0.003 else self._chance.randrange(150))
            with self._counting:
                self._open += 1
            sender.send(stamp, filling, self._answer(sent, stamp.sequence))

    def _answer(self, sent: Sent, sequence: int) -> Delivered:
        history = self._world.history

        def answer(offset: int | None, failure: str) -> None:
            if failure:
                sent.fail(sequence, failure, history.life)
            else:
                sent.acknowledge(sequence, offset, history.life)
                self._world.met("ack")
            with self._counting:
                self._open -= 1

        return answer

    def _hold_back(self, sender: Sender) -> None:
        """Wait while too much is under way."""
        while self._open > _MOST_UNANSWERED and not self.ending.is_set():
            sender.work(0.02)
