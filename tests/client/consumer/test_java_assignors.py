"""The built-in assignors and layouts beside those of Kafka's Java clients, fed with our bytes."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from pylogbroker.interfaces import IAssignor, Subscription
from pylogbroker.plugins.assignors import cooperative_sticky, range_, round_robin, sticky
from pylogbroker.wire.consumer_protocol import encode_subscription
from tests.client.consumer.sample_groups import TOPICS, Assignment, Group, check, counts, unevenness
from tests.peers.java import CLIENTS, Program
from tests.support.oracle_answers import OracleAnswers

SOURCE = Path(__file__).parent / "Assignors.java"
CASES = 100


def some_groups() -> list[Group]:
    """Groups with static members and differing subscriptions, half of them with what they had before."""
    drawn = random.Random(4)
    return [_group(drawn, identical=bool(number % 2)) for number in range(CASES)]


def _group(drawn: random.Random, identical: bool) -> Group:
    members = {
        f"m{number}": Subscription(
            TOPICS if identical else tuple(sorted(drawn.sample(TOPICS, drawn.randint(1, 4)))),
            instance_id=drawn.choice((None, f"i{9 - number}")),
        )
        for number in range(drawn.randint(1, 6))
    }
    return Group({topic: drawn.randint(1, 8) for topic in drawn.sample(TOPICS, drawn.randint(1, 4))}, members)


def grown(group: Group, assignor: IAssignor) -> Group:
    """The group with what its members had, before the first one left and another one came."""
    last = assignor.assign(group.partitions, group.members)
    settled = group.with_last(assignor, last)
    stayed = dict(list(settled.members.items())[1:])
    return Group(group.partitions, {**stayed, "new": Subscription(TOPICS)})


def of_java(
    oracle: OracleAnswers, assignor: IAssignor, groups: list[Group], clients: str
) -> tuple[list[Assignment], list[list[str]]]:
    """Return the answers of Java's assignor, and each group's subscriptions as it writes them."""
    question = "".join(_line(assignor.name, group) for group in groups)
    program = Program(SOURCE, clients)
    name = f"assignments-{assignor.name}-{clients}"
    said = oracle.answer(name, question, lambda: program.run(input=question).stdout.splitlines())
    answers = [line.split("|") for line in said]
    return [_assignment(assigned) for assigned, _ in answers], [written.split(" ") for _, written in answers]


def _line(name: str, group: Group) -> str:
    topics = ",".join(f"{topic}={number}" for topic, number in group.partitions.items())
    members = [f"{name}/{m.instance_id or ''}/{encode_subscription(m).hex()}" for name, m in group.members.items()]
    return " ".join([name, topics, *members]) + "\n"


def _assignment(text: str) -> Assignment:
    members = (each.split("=") for each in text.split(" "))
    return {member: sorted(map(_partition, some.split(","))) if some else [] for member, some in members}


def _partition(text: str) -> tuple[str, int]:
    topic, number = text.rsplit(":", 1)
    return topic, int(number)


@pytest.mark.parametrize("clients", CLIENTS)
@pytest.mark.parametrize("assignor", [range_, round_robin], ids=lambda each: each.name)
def test_balanced_assignments_match_javas(assignor: IAssignor, clients: str, oracle: OracleAnswers) -> None:
    groups = some_groups()
    answers, written = of_java(oracle, assignor, groups, clients)
    assert answers == [assignor.assign(group.partitions, group.members) for group in groups]
    assert written == [[encode_subscription(each).hex() for each in group.members.values()] for group in groups]


def test_sticky_is_as_balanced_and_as_sticky_as_javas(oracle: OracleAnswers) -> None:
    groups = [grown(group, sticky) for group in some_groups()]
    answers, _ = of_java(oracle, sticky, groups, "clients-4")
    for group, theirs in zip(groups, answers, strict=True):
        ours = sticky.assign(group.partitions, group.members)
        check(group, ours)
        check(group, theirs)
        assert unevenness(counts(ours)) <= unevenness(counts(theirs))
        if len({each.topics for each in group.members.values()}) == 1:
            assert stayed(group, ours) == stayed(group, theirs)


def test_java_reads_the_user_data_of_cooperative_members(oracle: OracleAnswers) -> None:
    settled = [cooperative_sticky.assign(group.partitions, group.members) for group in some_groups()[1::2]]
    joined = [
        group.with_last(cooperative_sticky, last) for group, last in zip(some_groups()[1::2], settled, strict=True)
    ]
    answers, _ = of_java(oracle, cooperative_sticky, joined, "clients-4")
    assert answers == settled


def stayed(group: Group, assignment: Assignment) -> int:
    """Return the number of partitions that stayed with their members."""
    return sum(len({*some} & {*group.members[member].owned}) for member, some in assignment.items())
