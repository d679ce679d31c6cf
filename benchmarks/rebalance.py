"""`python -m benchmarks.rebalance`: rebalances of a large group by both protocols.

    python -m benchmarks.rebalance              # this broker alone
    python -m benchmarks.rebalance --kafka      # and Apache Kafka 4.4

A thousand members join one group at once, each on a connection of its own, for a thousand partitions; then a tenth of
them leaves. The group is stable when its members have all partitions, none twice, in equal shares and in one epoch. A
client outside of the group, in another process, sends a request every millisecond meanwhile. Its longest wait is that
of any other client.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from math import ceil
from multiprocessing import Pipe, Process
from multiprocessing.connection import Connection
from operator import attrgetter
from pathlib import Path
from statistics import median

import attrs
import click
from rich.console import Console

from benchmarks import requests
from benchmarks.broker import show
from benchmarks.brokers import Running, kafka, own
from benchmarks.driver import call, connect
from benchmarks.group_members import ClassicMember, ConsumerMember, Member, MemberConnection

INTERVAL_MS = 500
SETTINGS = {
    "group.initial.rebalance.delay.ms": "500",
    "group.coordinator.rebalance.protocols": "classic,consumer",
    "group.consumer.heartbeat.interval.ms": str(INTERVAL_MS),
    "group.consumer.min.heartbeat.interval.ms": str(INTERVAL_MS),
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
}
PROBE_SECONDS = 0.001
STABLE_SECONDS_MAX = 120.0
PROTOCOLS = ("classic", "consumer")
FIGURES: Mapping[str, Callable[["Step"], float]] = {
    "s": attrgetter("seconds"),
    "processor s": attrgetter("processor_seconds"),
    "longest wait ms": attrgetter("longest_wait_ms"),
}


@attrs.define
class Group:
    """Members that run, and what their group has to assign."""

    partitions: int
    members: dict[Member, asyncio.Task[None]] = attrs.field(factory=dict)
    _changed: asyncio.Event = attrs.field(factory=asyncio.Event)

    @property
    def on_change(self) -> Callable[[], None]:
        return self._changed.set

    async def start(self, members: Sequence[Member]) -> None:
        for member in members:
            self.members[member] = asyncio.create_task(member.run())

    async def leave(self, members: Sequence[Member]) -> None:
        for member in members:
            self.members.pop(member).cancel()
        await asyncio.gather(*(member.leave() for member in members))

    def is_stable(self) -> bool:
        owned = [partition for member in self.members for partition in member.owned]
        epochs = {member.epoch for member in self.members}
        is_balanced = max(len(member.owned) for member in self.members) <= ceil(self.partitions / len(self.members))
        return len(epochs) == 1 and is_balanced and len(owned) == len(set(owned)) == self.partitions

    async def wait_until_stable(self) -> None:
        async with asyncio.timeout(STABLE_SECONDS_MAX):
            while not self.is_stable():
                self._changed.clear()
                await self._changed.wait()
                for task in self.members.values():
                    if task.done():
                        task.result()


@contextmanager
def probe(broker: Running) -> Iterator[Callable[[], float]]:
    """Run a client outside of the group in another process; the function ends it, and returns its longest wait."""
    ours, its = Pipe()
    process = Process(target=_probe, args=(broker.session.host, broker.session.port, its))
    process.start()
    ours.recv()  # it is connected

    def end() -> float:
        ours.send(None)
        longest: float = ours.recv()
        return longest

    try:
        yield end
    finally:
        process.kill()
        process.join()


def _probe(host: str, port: int, pipe: Connection) -> None:
    request = requests.end_offsets_request("no-topic", 1)
    longest = 0.0
    with closing(connect(host, port)) as sock:
        call(sock, request)
        pipe.send(None)
        while not pipe.poll(PROBE_SECONDS):
            begin = time.perf_counter()
            call(sock, request)
            longest = max(longest, time.perf_counter() - begin)
    pipe.send(longest)


@attrs.frozen
class Step:
    """Figures of one rebalance."""

    seconds: float
    processor_seconds: float  # of the broker
    longest_wait_ms: float  # of the probe


async def measure(broker: Running, protocol: str, members: int, partitions: int) -> dict[str, Step]:
    """Return the figures of each step."""
    group, name = Group(partitions), f"group-{time.time_ns()}"
    with broker.session.topic(partitions) as topic:
        connection = await MemberConnection.open(broker.session.host, broker.session.port)
        await connection.find_coordinator(name)
        connection.close()
        created = [await _member(broker, group, protocol, name, topic) for _ in range(members)]
        steps = {"join": await _step(broker, group, lambda: group.start(created))}
        steps["leave"] = await _step(broker, group, lambda: group.leave(created[::10]))
        await group.leave(list(group.members))
    return steps


async def _member(broker: Running, group: Group, protocol: str, name: str, topic: str) -> Member:
    connection = await MemberConnection.open(broker.session.host, broker.session.port)
    interval = INTERVAL_MS / 1000
    if protocol == "classic":
        return ClassicMember(connection, name, topic, group.partitions, interval, group.on_change)
    return ConsumerMember(connection, name, topic, interval, group.on_change)


async def _step(broker: Running, group: Group, begin: Callable[[], Coroutine[None, None, None]]) -> Step:
    with probe(broker) as end_probe:
        started, used = time.perf_counter(), broker.cpu_seconds()
        await begin()
        await group.wait_until_stable()
        return Step(time.perf_counter() - started, broker.cpu_seconds() - used, 1000 * end_probe())


@click.command()
@click.option("--kafka", "with_kafka", is_flag=True, help="Start Apache Kafka 4.4 and measure it as well.")
@click.option("--members", default=1000, show_default=True, type=click.IntRange(10), help="Members of the group.")
@click.option("--partitions", default=1000, show_default=True, type=click.IntRange(1), help="Partitions of the topic.")
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(1), help="Measurements of each protocol.")
@click.option("--warm-up", default=1, show_default=True, help="Runs of each protocol before its measurements.")
@click.option("--directory", type=click.Path(path_type=Path), help="Directory of the data; by default in /tmp.")
@click.option("--markdown", is_flag=True, help="Print the table as Markdown.")
def main(
    with_kafka: bool,
    members: int,
    partitions: int,
    rounds: int,
    warm_up: int,
    directory: Path | None,
    markdown: bool,
) -> None:
    """Measure rebalances of a large group."""
    with ExitStack() as stack:
        brokers = [stack.enter_context(own(directory, SETTINGS))]
        if with_kafka:
            brokers.append(stack.enter_context(kafka(directory, SETTINGS, "kafka-4.4")))
        measured: dict[tuple[str, str, str], list[Step]] = defaultdict(list)
        for number in range(-warm_up, rounds):
            for protocol in PROTOCOLS:
                for broker in brokers if number % 2 else reversed(brokers):
                    for name, step in asyncio.run(measure(broker, protocol, members, partitions)).items():
                        if number >= 0:
                            measured[protocol, name, broker.name].append(step)
    rows = [
        [f"{protocol}: {members if step == 'join' else len(range(0, members, 10))} members {step}", unit]
        + [f"{median(map(figure, measured[protocol, step, broker.name])):.3g}" for broker in brokers]
        for protocol in PROTOCOLS
        for step in ("join", "leave")
        for unit, figure in FIGURES.items()
    ]
    show(Console(), ["work", "unit", *(broker.name for broker in brokers)], rows, markdown)


if __name__ == "__main__":
    main()
