"""The command `pylogbroker` on a cluster of several brokers."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from click.testing import CliRunner, Result

from pylogbroker.cli import main
from tests.cluster.cluster import Cluster
from tests.cluster.members import CALM, own
from tests.support.waiting import wait_until

NewCluster = Callable[..., Cluster]


def test_replicas_move_and_a_broker_fails(new_cluster: NewCluster, topic: str) -> None:
    cluster = new_cluster(own, own, own, settings=CALM)
    cluster.create(topic, replicas=[[1, 2], [2, 1]])

    def run(*arguments: object, code: int = 0) -> Result:
        options = ["-b", cluster.bootstrap]
        found = CliRunner().invoke(main, [*map(str, arguments), *options])
        assert found.exit_code == code, found.output
        return found

    def found(*arguments: object, code: int = 0) -> Any:
        return json.loads(run(*arguments, "--format", "json", code=code).stdout)

    def replicas() -> list[list[int]]:
        return [each["replicas"] for each in found("topic", "describe", topic)[0]["partitions"]]

    def leaders() -> list[int]:
        return [each["leader"] for each in found("topic", "describe", topic)[0]["partitions"]]

    for partition in range(2):
        run("produce", topic, "-p", partition, __file__)
    lines = run("consume", topic, "-e").stdout.splitlines()  # of two leaders
    with open(__file__) as file:
        own_lines = file.read().splitlines()
    assert sorted(lines) == sorted(2 * own_lines)

    planned = found("reassign", "start", topic, "--to", "3,1", "--yes")
    assert [(each["old_replicas"], each["new_replicas"]) for each in planned] == [([1, 2], [3, 1]), ([2, 1], [1, 3])]
    wait_until(lambda: replicas() == [[3, 1], [1, 3]] and found("reassign", "list") == [])
    run("reassign", "elect", topic)
    wait_until(lambda: leaders() == [3, 1])
    assert run("reassign", "cancel", topic, "--yes").stderr == "Cancelled 0 moves.\n"
    run("reassign", "start", topic, "--to", "x", code=2)
    wait_until(lambda: found("cluster", "health")["healthy"])

    cluster.stop(3)

    def is_noticed() -> bool:
        health = CliRunner().invoke(main, ["cluster", "health", "-b", cluster.bootstrap, "--format", "json"])
        return health.exit_code == 10 and f"{topic}/0" in json.loads(health.stdout)["under_replicated"]

    wait_until(is_noticed)
    assert found("cluster", "health", code=10)["brokers"] == 2


def test_a_partition_without_a_leader_leaves_the_others_visible(new_cluster: NewCluster, topic: str) -> None:
    cluster = new_cluster(own, own, settings=CALM)
    cluster.create(topic, replicas=[[2], [1]])
    group = topic

    def run(*arguments: object, code: int = 0) -> Result:
        found = CliRunner().invoke(main, [*map(str, arguments), "-b", cluster.bootstrap])
        assert found.exit_code == code, found.output
        return found

    def rows(*arguments: object, code: int = 0) -> Any:
        return json.loads(run(*arguments, "--format", "json", code=code).stdout)

    for partition in range(2):
        run("produce", topic, "-p", partition, __file__)
    run("group", "reset", group, "--to-earliest", "-t", topic, "--yes")
    cluster.stop(2)

    def has_no_leader() -> bool:
        found = CliRunner().invoke(main, ["cluster", "health", "-b", cluster.bootstrap, "--format", "json"])
        return found.exit_code == 10 and f"{topic}/0" in json.loads(found.stdout)["without_leader"]

    wait_until(has_no_leader)
    with open(__file__) as file:
        end = sum(1 for _ in file)
    lag = run("group", "lag", group, "--format", "json")
    assert [(each["end_offset"], each["lag"]) for each in json.loads(lag.stdout)] == [(None, None), (end, end)]
    assert lag.stderr == f"{topic}/0 has no leader now\n"
    reset = ("group", "reset", group, "--to-latest")
    assert [each["new_offset"] for each in rows(*reset, "--dry-run", code=1)] == [None, end]
    assert [each["lag"] for each in rows(*reset, "--yes", code=1)] == [None, 0]
    assert [each["committed"] for each in rows("group", "lag", group)] == [0, end]
    trim = rows("topic", "trim", topic, "--before-offset", 2, "--yes", code=1)
    assert [(each["start_offset"], each["new_start_offset"], each["records"]) for each in trim] == [
        (None, None, None),
        (0, 2, 2),
    ]
    assert f"not trimmed: {topic}/0" in run("topic", "trim", f"{topic}:0", "--all", "--yes", code=1).stderr
