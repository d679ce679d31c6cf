"""Which brokers get which partitions."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.metadata.image import TopicImage
from pylogbroker.metadata.persistent_map import PersistentMap
from pylogbroker.metadata.placement import (
    Assignment,
    RandomBelow,
    check_assignment,
    of_more_partitions,
    of_new_topic,
    spread,
)
from pylogbroker.metadata.zk_image import new_partition
from tests.peers.java import Program
from tests.support.oracle_answers import OracleAnswers

PROGRAM = Program(Path(__file__).with_name("Placements.java"), "kafka-3.9")
RACKS = "1:b 2:a 3:c 4:a 5:b 6:c 7:a"
CLUSTERS = ["1", "1:r", "1 2", "4 5 6", "1 2 3 4 5", "1:a 2:b", "1:a 2:a 3:b", "1:a 2:b 3:c 4:a 5:b 6:c", RACKS]


def _brokers(text: str) -> dict[int, str | None]:
    words = (word.partition(":") for word in text.split())
    return {int(id_): rack or None for id_, _, rack in words}


def test_kafka_places_them_alike(oracle: OracleAnswers) -> None:
    asked = [
        (start, first, 2 * len(_brokers(cluster)) + 1, width, cluster)
        for cluster in CLUSTERS
        for width in range(1, len(_brokers(cluster)) + 1)
        for start in (0, 1, 4)
        for first in (0, 1, len(_brokers(cluster)), 7)
    ]
    question = "".join(f"{start} {first} {count} {width} {cluster}\n" for start, first, count, width, cluster in asked)
    lines = oracle.answer("placements", question, lambda: PROGRAM.run(input=question).stdout.splitlines())
    for (start, first, count, width, cluster), line in zip(asked, lines, strict=True):
        placed = spread(_brokers(cluster), first, count, width, start, start)
        said = ", ".join(f"{partition}={list(replicas)}" for partition, replicas in placed.items())
        assert f"{{{said}}}" == line, (start, first, width, cluster)


def test_racks_do_not_count_if_some_brokers_have_none() -> None:
    assert spread({1: "a", 2: None, 3: "a"}, 0, 3, 2) == spread({1: None, 2: None, 3: None}, 0, 3, 2)


def _begins(start: int, shift: int) -> RandomBelow:
    numbers = iter((start, shift))
    return lambda below: next(numbers) % below


def test_topics_begin_anywhere() -> None:
    brokers = dict.fromkeys((4, 5, 6, 7))
    assert of_new_topic(2, 2, brokers, _begins(0, 0)) == {0: (4, 5), 1: (5, 6)}
    assert of_new_topic(2, 2, brokers, _begins(3, 0)) == {0: (7, 4), 1: (4, 5)}
    assert of_new_topic(2, 2, brokers, _begins(0, 1)) == {0: (4, 6), 1: (5, 7)}


def _topic(*replicas: int) -> TopicImage:
    return TopicImage("t", uuid.UUID(int=1), PersistentMap({0: new_partition(replicas)}))


def test_more_partitions_continue_where_the_topic_began() -> None:
    brokers = dict.fromkeys((4, 5, 6))
    assert of_more_partitions(_topic(5), 3, brokers, None) == {1: (6,), 2: (4,)}
    assert of_more_partitions(_topic(9), 2, brokers, None) == {1: (5,)}
    with pytest.raises(KafkaError, match="2 replicas") as caught:
        of_more_partitions(_topic(4, 5), 3, {4: None}, None)
    assert caught.value.code is ErrorCode.INVALID_REPLICATION_FACTOR


@pytest.mark.parametrize(
    ("assignment", "width"),
    [
        ({0: [1], 1: [2]}, None),
        ({0: [2, 1]}, 2),
    ],
)
def test_good_assignments(assignment: Assignment, width: int | None) -> None:
    check_assignment(assignment, [1, 2], 0, width)


@pytest.mark.parametrize(
    ("assignment", "width", "reported"),
    [
        ({1: [1]}, None, "consecutively from 0"),
        ({0: [1], 2: [1]}, None, "consecutively"),
        ({0: []}, None, "empty"),
        ({0: [1, 1]}, None, "twice"),
        ({0: [1], 1: [1, 2]}, None, "1 replica"),
        ({0: [1]}, 2, "2 replicas"),
        ({0: [3]}, None, "broker 3 is not registered"),
    ],
)
def test_bad_assignments(assignment: Assignment, width: int | None, reported: str) -> None:
    with pytest.raises(KafkaError, match=reported) as caught:
        check_assignment(assignment, [1, 2], 0, width)
    assert caught.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
