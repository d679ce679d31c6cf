"""A stream whose processes are killed with -9, one after the other, and whose output is counted by another client.

The stream (`kill_stream`) copies a topic of two partitions into another one.  All that time librdkafka reads what is
committed there: each record has to come once, and those of a partition in their order.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import TypeVar

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, IsolationLevel, KafkaError, TopicPartition

from tests.conftest import make_broker
from tests.peers import available as java_available
from tests.spark.rows import values
from tests.spark.topics import Rec, Topics
from tests.support.both_brokers import BROKER_NAMES
from tests.support.brokers import Broker
from tests.support.budget import Budget
from tests.support.line_process import LineProcess, ProcessFailed
from tests.support.waiting import wait_until

T = TypeVar("T")
LIMIT = 120.0  # seconds
USUAL_SECONDS = 10.0  # after which no other scenario is begun
THOROUGH_SECONDS = 600.0
ROUNDS = 3  # of all scenarios, at most
PARTITIONS = range(2)
LARGE = 600_000  # bytes: the sink sends the first of ten such records before it has got the last
PASSING = {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT}


class Copying:
    """The stream: what goes in, what comes out, and the processes that do it."""

    def __init__(self, topics: Topics, place: Path) -> None:
        self._topics = topics
        self._points = place / "points"
        self._points.mkdir(parents=True)
        self._source, self._sink = topics.make(len(PARTITIONS)), topics.make(len(PARTITIONS))
        module = "tests.spark.kill_stream"
        self._command = [sys.executable, "-m", module, topics.bootstrap, self._source, self._sink, str(place)]
        self._numbers = count()
        self._expected: list[list[int]] = [[] for _ in PARTITIONS]
        self._found: list[list[int]] = [[] for _ in PARTITIONS]
        self._reader = _reader(topics.bootstrap, self._sink)
        self._process: LineProcess | None = None
        self._jvm = 0
        self._failures = 0

    # -- records -------------------------------------------------------------------------------------------------

    def fill(self, many: int, size: int = 8, *, expected: bool = True) -> None:
        """More records in the source, to be read all at once."""
        numbers = [next(self._numbers) for _ in range(many)]
        records = [Rec((b"%05d" % each).ljust(size), partition=each % len(PARTITIONS)) for each in numbers]
        self._topics.transaction(self._source, records, commit=True)
        for number in numbers if expected else ():
            self._expected[number % len(PARTITIONS)].append(number)

    def look(self) -> int:
        """Return the number of copied records."""
        for message in self._reader.consume(1000, 0.05):
            if (error := message.error()) is not None:
                assert error.code() in PASSING, error
            else:
                number, partition = message.value(), message.partition()
                assert number is not None
                assert partition is not None
                self._found[partition].append(int(number[:5]))
        return sum(map(len, self._found))

    def until(self, many: int, *, again: bool = False) -> None:
        """Wait until so many have been copied; a query that fails is started again, if it may fail."""

        def are_there() -> bool:
            self._restart(again)
            return self.look() >= many

        self.wait(are_there)

    def _restart(self, again: bool) -> None:
        """Start a query again that has failed, if it may fail."""
        if found := self._new_failures():
            assert again, found
            self.start()

    def check(self, *, again: bool = False) -> None:
        """All have been copied, each of them once and in its order."""
        self.until(sum(map(len, self._expected)), again=again)
        assert self._found == self._expected

    def check_afresh(self) -> None:
        """Return the records that another client reads, up to the present end."""
        self.fill(2)
        self.check()
        for partition, expected in enumerate(self._expected):
            found = values(self._topics.bootstrap, self._sink, [partition])
            assert [int(value[:5]) for value in found] == expected

    def is_something_open(self) -> bool:
        """True if there are records in the sink of which nobody knows yet whether they are to be read."""
        return any(
            len({self._topics.end(self._sink, partition, level) for level in IsolationLevel}) > 1
            for partition in PARTITIONS
        )

    # -- processes -----------------------------------------------------------------------------------------------

    def launch(self) -> None:
        """A driver with its JVM; there is no query yet."""
        self._process = LineProcess(self._command)
        self._failures = 0
        self._jvm = int(self.process.expect(r"^jvm (\d+)", LIMIT)[1])

    def start(self) -> None:
        """Start the query."""
        self.process.send("start")

    @property
    def process(self) -> LineProcess:
        """The driver."""
        assert self._process is not None
        return self._process

    def pythons(self) -> list[int]:
        """The processes that the JVM has made, for tasks and for its own ends; there are none after a failure."""

        def there_are() -> list[int]:
            self._restart(again=True)
            return descendants(self._jvm)

        return self.wait(there_are)

    def failure(self, why: str) -> None:
        """Wait until the query has failed, and that is said to be why."""
        [reported] = self.wait(self._new_failures)
        if why not in reported:
            raise ProcessFailed(reported)

    def kill_driver(self) -> None:
        """And its JVM, before it notices."""
        kill(self._jvm)
        self.process.kill()

    def wait(self, condition: Callable[[], T]) -> T:
        """Until it holds, and what it is then."""
        found: list[T] = []

        def holds() -> T:
            found[:] = [condition()]
            if not found[0] and not self.process.running:
                raise ProcessFailed(self._last_lines())
            return found[0]

        wait_until(holds, LIMIT, self._last_lines)
        return found[0]

    def _last_lines(self) -> str:
        return "\n".join(self.process.lines[-40:])

    def close(self) -> None:
        """Leave nothing behind."""
        for path in self._points.iterdir():
            path.unlink()
        if self._process is not None:
            left = descendants(self.process.pid)
            self.process.kill()
            for number in left:
                kill(number)
        self._reader.close()

    def _new_failures(self) -> list[str]:
        ended = [line for line in self.process.lines if line.startswith("ended:")]
        new, self._failures = ended[self._failures :], len(ended)
        return new

    # -- points --------------------------------------------------------------------------------------------------

    def ask(self, point: str, what: str) -> None:
        """Make tasks that reach a point `wait`, or `fail`."""
        new = self._points / "new"
        new.write_text(what)
        new.rename(self._points / point)

    def who(self, point: str) -> int:
        """Return the tasks that have reached the point."""
        [path] = self.wait(lambda: list(self._points.glob(f"{point}.*")))
        return int(path.suffix[1:])

    def let_go(self, point: str) -> None:
        """Nobody waits there any more, or fails."""
        for path in self._points.glob(f"{point}*"):
            path.unlink()


@pytest.fixture
def own_broker(broker_name: str, tmp_path: Path) -> Iterator[Broker]:
    """A broker that may be killed."""
    if not java_available():
        pytest.skip("Java and Maven are not installed")
    running = make_broker(BROKER_NAMES[broker_name], tmp_path / "broker", {})
    running.start()
    yield running
    running.kill()
    assert running.unexpected_errors() == []


@pytest.fixture
def copying(own_broker: Broker, fresh_name: Callable[[], str], tmp_path: Path) -> Iterator[Copying]:
    with Topics(own_broker.bootstrap, fresh_name) as topics:
        made = Copying(topics, tmp_path / "stream")
        yield made
        made.close()


@pytest.mark.parametrize("broker_name", ["pylogbroker"], indirect=True)
def test_each_record_comes_once(copying: Copying, own_broker: Broker, budget: Budget) -> None:
    """All scenarios in an order of chance, as many as there is time for; a later run has others."""
    chance = budget.chance("kills of a stream")
    end = time.monotonic() + budget.of(USUAL_SECONDS, THOROUGH_SECONDS)
    copying.launch()
    the_first_batch_fails(copying)
    for number, scenario in enumerate(shuffled(chance, budget.of(1, ROUNDS))):
        if number and time.monotonic() > end:
            break
        print(scenario.__name__)
        scenario(copying, own_broker, chance)
    copying.check_afresh()


@pytest.mark.parametrize("broker_name", ["kafka"], indirect=True)
def test_a_failed_batch_and_a_killed_broker_with_apache_kafka(copying: Copying, own_broker: Broker) -> None:
    copying.launch()
    the_first_batch_fails(copying)
    the_broker_is_killed_at(copying, own_broker, "all-written")
    copying.check_afresh()


def the_first_batch_fails(copying: Copying) -> None:
    """The first batch has the beginning, at the end of the topic then, and no rows."""
    copying.fill(4, expected=False)
    copying.ask("begun", "fail")
    copying.start()
    copying.failure("failed at the point begun")
    copying.fill(6)
    copying.let_go("begun")
    copying.start()
    copying.check()


def a_batch_fails(copying: Copying, broker: Broker, chance: random.Random) -> None:
    """Fail in the middle of the rows, and after the commit of which Spark does not know yet."""
    for point in ("half", "committed"):
        copying.ask(point, "fail")
        copying.fill(20, LARGE)
        copying.failure(f"failed at the point {point}")
        copying.let_go(point)
        copying.start()
        copying.fill(2)
        copying.check()


def workers_are_killed(copying: Copying, broker: Broker, chance: random.Random) -> None:
    """That is for Spark to deal with: the query goes on."""
    for point in ("read", "half", "written"):
        copying.ask(point, "wait")
        copying.fill(20, LARGE)
        worker = copying.who(point)
        if point != "read":
            copying.wait(copying.is_something_open)
        kill(worker)
        copying.check()
        copying.let_go(point)


def the_broker_is_killed(copying: Copying, broker: Broker, chance: random.Random) -> None:
    """While a task writes, and when the driver is about to commit."""
    for point in ("half", "all-written"):
        the_broker_is_killed_at(copying, broker, point)


def the_broker_is_killed_at(copying: Copying, broker: Broker, point: str) -> None:
    """The query may fail, and is started again."""
    copying.ask(point, "wait")
    copying.fill(20, LARGE)
    copying.who(point)
    copying.wait(copying.is_something_open)
    broker.kill()
    copying.let_go(point)
    broker.start()
    copying.check(again=True)


def in_the_middle_of_a_batch(copying: Copying, broker: Broker, chance: random.Random) -> None:
    """The task outlives its driver, and goes on when its batch has been written by another one."""
    copying.ask("half", "wait")
    copying.fill(20, LARGE)
    task = copying.who("half")
    copying.wait(copying.is_something_open)
    replace_driver(copying)
    copying.check()
    goes_on(copying, "half", task)


def between_the_tasks_and_the_commit(copying: Copying, broker: Broker, chance: random.Random) -> None:
    """So does the process that commits."""
    copying.ask("all-written", "wait")
    copying.fill(20, LARGE)
    committing = copying.who("all-written")
    assert copying.is_something_open()
    replace_driver(copying)
    copying.check()
    goes_on(copying, "all-written", committing)


def at_random(copying: Copying, broker: Broker, chance: random.Random) -> None:
    """Kill any process at any point."""
    victims = ["python"] * 2 + ["broker"]
    chance.shuffle(victims)
    begun = copying.look()
    copying.fill(50 * (len(victims) + 1))
    for number, victim in enumerate(victims, 1):
        copying.until(begun + 50 * number, again=True)
        time.sleep(chance.uniform(0, 0.5))
        if victim == "broker":
            broker.kill()
            broker.start()
        else:
            kill(chance.choice(copying.pythons()))
    copying.check(again=True)


Scenario = Callable[[Copying, Broker, random.Random], None]
SCENARIOS: tuple[Scenario, ...] = (
    a_batch_fails,
    workers_are_killed,
    the_broker_is_killed,
    in_the_middle_of_a_batch,
    between_the_tasks_and_the_commit,
    at_random,
)


def shuffled(chance: random.Random, rounds: int) -> list[Scenario]:
    """All scenarios, so many times, each time in another order."""
    return [scenario for _ in range(rounds) for scenario in chance.sample(SCENARIOS, len(SCENARIOS))]


def replace_driver(copying: Copying) -> None:
    """Kill it, and start another one, which goes on from the checkpoint."""
    copying.kill_driver()
    copying.launch()
    copying.start()


def goes_on(copying: Copying, point: str, number: int) -> None:
    """A task that waits at a point continues too late, and does no harm."""
    assert number in running()
    copying.let_go(point)
    copying.wait(lambda: number not in running())
    copying.fill(20)
    copying.check()


def running() -> dict[int, int]:
    """The processes that run, each with its parent."""
    found = subprocess.run(["ps", "-e", "-o", "pid=,ppid=,stat="], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in found.splitlines()]
    return {int(number): int(parent) for number, parent, state in rows if not state.startswith("Z")}


def descendants(number: int) -> list[int]:
    """The processes that a process has made, and those that they have."""
    parents = running()
    found = [number]
    for each in found:
        found += [child for child, parent in parents.items() if parent == each]
    return found[1:]


def kill(number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(number, signal.SIGKILL)


def _reader(bootstrap: str, topic: str) -> Consumer:
    """Reads what is committed, from the beginning, whatever becomes of the broker."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "none", "isolation.level": "read_committed"}
    steady = {"auto.offset.reset": "error", "enable.auto.commit": False, "reconnect.backoff.max.ms": 200}
    reader = Consumer({**settings, **steady})
    reader.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in PARTITIONS])
    return reader
