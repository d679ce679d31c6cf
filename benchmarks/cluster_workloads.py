"""Workloads of a cluster: the load, the figures measured, and their wanted ratio to Kafka's."""

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import attrs
from confluent_kafka import Producer

from benchmarks.clusters import BROKERS, MeasuredCluster
from benchmarks.driver import call
from benchmarks.errors import BenchmarkError
from benchmarks.requests import create_topic_request, created, produce_request, produced
from benchmarks.session import NO_SETTINGS, Session, expect, try_produce
from benchmarks.workloads import (
    MEGABYTE,
    MEGABYTE_OF_KILOBYTES,
    SINGLE,
    SIXTEEN_KILOBYTES,
    Batches,
    Figures,
    produce,
    produce_one_at_a_time,
)
from pylogbroker.errors import ErrorCode

ACKS_ALL = -1
PARTITIONS_PER_TOPIC = 100
FAILOVER_SECONDS_MAX = 300.0
RETRY_SECONDS = 0.001
TRANSACTIONS = 300
WARM_UP_TRANSACTIONS = 10
TRANSACTION_SECONDS_MAX = 60.0
VALUE = bytes(100)
Measure = Callable[[MeasuredCluster, int, float], Figures]


@attrs.frozen
class ClusterWorkload:
    """One or more rows of the table; a wanted ratio below 1 is an upper bound, for times and sizes.

    `measure` gets the number of the round, and the scale.
    """

    name: str
    title: str
    measure: Measure
    wanted: Mapping[str, float]
    warms_up: bool = True


def replicated(batches: Batches, count: int, in_flight: int) -> Measure:
    """Produce to one partition with acks=all; each round has another leader."""

    def measure(cluster: MeasuredCluster, number: int, scale: float) -> Figures:
        return produce(leader(cluster, number), batches, int(count * scale), in_flight, ACKS_ALL)

    return measure


def one_at_a_time(cluster: MeasuredCluster, number: int, scale: float) -> Figures:
    return produce_one_at_a_time(leader(cluster, number), int(5_000 * scale), ACKS_ALL)


def transactions(cluster: MeasuredCluster, number: int, scale: float) -> Figures:
    """Commit transactions of one record, back to back, with librdkafka; return median and 99th percentile.

    Each round has another transactional id, so in time another coordinator. The first transactions are not counted:
    they look for coordinator and leader.
    """
    session, clock, times = leader(cluster, number), time.perf_counter, []
    count = int(TRANSACTIONS * scale)
    with session.topic() as topic:
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": topic, "linger.ms": 0})
        producer.init_transactions(TRANSACTION_SECONDS_MAX)
        for _ in range(WARM_UP_TRANSACTIONS + count):
            begin = clock()
            producer.begin_transaction()
            producer.produce(topic, VALUE, partition=0)
            producer.commit_transaction(TRANSACTION_SECONDS_MAX)
            times.append(clock() - begin)
        wanted, deadline = [2 * len(times)], clock() + TRANSACTION_SECONDS_MAX
        while session.end_offsets(topic) != wanted and clock() < deadline:  # the last marker comes after the answer
            time.sleep(RETRY_SECONDS)
        expect(session.end_offsets(topic), wanted, "log end with a marker for each record")
    times = sorted(times[WARM_UP_TRANSACTIONS:])
    return {"ms": statistics.median(times) * 1e3, "p99 ms": times[count * 99 // 100] * 1e3}


def leader(cluster: MeasuredCluster, number: int) -> Session:
    """Return a session with the broker that leads in this round."""
    return cluster.session(cluster.ids[number % BROKERS])


def leader_failover(cluster: MeasuredCluster, number: int, scale: float) -> Figures:
    """Kill a leader that is not the controller; return the time from its expiry to an acknowledgement of the next.

    The time between the kill and the expiry is a session timeout, which all brokers have in common.
    """
    dead = next(each for each in cluster.ids if each != cluster.cluster.controller())
    session = cluster.session(dead)
    with session.topic() as topic, cluster.session(session.replicas[1]).connection() as sock:
        request = produce_request(topic, [(0, SINGLE.build())], ACKS_ALL)
        with session.connection() as old:
            try_produce(old, request, [0])
        with _killed(cluster, dead) as expired:
            while error := ErrorCode(produced(call(sock, request))[0][0]):
                if not error.retriable or time.perf_counter() > expired + FAILOVER_SECONDS_MAX:
                    raise BenchmarkError(f"the leader is dead, and another broker answers: {error.meaning}")
                time.sleep(RETRY_SECONDS)
            elapsed = time.perf_counter() - expired
        cluster.wait_for_leaders([topic], cluster.ids, BROKERS, FAILOVER_SECONDS_MAX)
    return {"ms": elapsed * 1e3}


def resident(cluster: MeasuredCluster, number: int, scale: float) -> Figures:
    return {"MB": cluster.resident_bytes() / MEGABYTE}


def controller_failovers(cluster: MeasuredCluster, partitions: int, rounds: int) -> Iterator[Figures]:
    """Create many empty partitions, and kill the controller repeatedly; any broker if the controller is none.

    A time runs from the expiry of the broker until both others know a leader for each partition.
    """
    topics = [f"topic-{number}" for number in range(max(1, partitions // PARTITIONS_PER_TOPIC))]
    with cluster.controller().connection() as sock:
        for topic in topics:
            request = create_topic_request(topic, partitions // len(topics), NO_SETTINGS, replication_factor=BROKERS)
            expect(created(call(sock, request)), [0], "creation")
    cluster.wait_for_leaders(topics, cluster.ids, BROKERS, FAILOVER_SECONDS_MAX)
    for _ in range(rounds):
        dead = cluster.cluster.controller()
        others = [each for each in cluster.ids if each != dead]
        with _killed(cluster, dead) as expired:
            cluster.wait_for_leaders(topics, others, 1, FAILOVER_SECONDS_MAX)
            elapsed = time.perf_counter() - expired
        cluster.wait_for_leaders(topics, cluster.ids, BROKERS, FAILOVER_SECONDS_MAX)
        yield {"s": elapsed, "MB": cluster.resident_bytes() / MEGABYTE}


@contextmanager
def _killed(cluster: MeasuredCluster, number: int) -> Iterator[float]:
    """Kill a broker and give the time at which the cluster knows it; the broker starts again in the end."""
    death = cluster.death(number)
    cluster.cluster.kill(number)
    yield death.wait()
    cluster.cluster.start(number)


WORKLOADS: tuple[ClusterWorkload, ...] = (
    ClusterWorkload(
        "produce-1m",
        "produce 1 MB requests of 1 KB records, 5 in flight",
        replicated(MEGABYTE_OF_KILOBYTES, 300, 5),
        {"MB/s": 1.5},
    ),
    ClusterWorkload(
        "produce-16k",
        "produce 16 KB requests, 5 in flight",
        replicated(SIXTEEN_KILOBYTES, 6_000, 5),
        {"requests/s": 1.5},
    ),
    ClusterWorkload(
        "produce-single",
        "produce single 100 B records, 64 in flight",
        replicated(SINGLE, 20_000, 64),
        {"requests/s": 3},
    ),
    ClusterWorkload(
        "produce-latency",
        "produce single 100 B records, one at a time",
        one_at_a_time,
        {"us": 0.7, "p99 us": 0.5},
    ),
    ClusterWorkload(
        "transactions",
        "transactions of one 100 B record, back to back",
        transactions,
        {"ms": 0.7, "p99 ms": 0.5},
    ),
    ClusterWorkload("leader-killed", "leader killed, to the next acknowledgement", leader_failover, {"ms": 0.5}, False),
    ClusterWorkload("resident", "resident memory of all three brokers", resident, {"MB": 0.25}, False),
)
