"""`pylogbroker group` on groups of Kafka Streams (KIP-1071), whose members a test plays."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from click.testing import CliRunner

from pylogbroker.cli import main
from tests.broker.security.answers import asking
from tests.clients.streams_members import StreamsMembers, joined, streams_group
from tests.support.brokers import Broker


@pytest.fixture
def group(broker: Broker, fresh_name: Callable[[], str]) -> Iterator[StreamsMembers]:
    host, port = broker.bootstrap.rsplit(":", 1)
    with asking(int(port)) as ask_from:
        yield streams_group(partial(ask_from, host), broker.bootstrap, fresh_name(), fresh_name())


def run(broker: Broker, *arguments: str) -> str:
    done = CliRunner().invoke(main, ["group", *arguments, "-b", broker.bootstrap])
    assert done.exit_code == 0, done.output
    return done.stdout


def rows(broker: Broker, *arguments: str) -> Any:
    return json.loads(run(broker, *arguments, "--format", "json"))


def test_group_is_listed_described_and_deleted(broker: Broker, group: StreamsMembers) -> None:
    joined(group, "a", "b")
    assert group.id in [row["group"] for row in rows(broker, "list", "--type", "streams")]
    [described] = rows(broker, "describe", group.id)
    assert (described["state"], described["type"], described["protocol"]) == ("Stable", "streams", "sticky")
    assert described["epoch"] == described["target_epoch"] > 0
    tasks = sorted(task for member in described["members"] for task in member["tasks"])
    assert tasks == [f"{subtopology}_{number}" for subtopology in "01" for number in range(3)]
    assert {member["process"] for member in described["members"]} == {"p-a", "p-b"}
    partitions = [(row["topic"], row["partition"]) for member in described["members"] for row in member["partitions"]]
    assert sorted(partitions) == sorted((topic, n) for topic in (group.topic, group.internal[0]) for n in range(3))
    table = run(broker, "describe", group.id)
    assert "1_0" in table
    assert "standby_tasks" in table.lower().replace(" ", "_")
    [member] = [row for row in group.describe().members if row.member_id == "a"]
    assert group.commit("a", member.member_epoch) == 0
    lag = {(row["topic"], row["partition"]): row["committed"] for row in rows(broker, "lag", group.id)}
    assert lag[group.topic, 0] == 5
    for name in "ab":
        group.beat(name, -1)
    run(broker, "reset", group.id, "--to-earliest", "-t", f"{group.topic}:0", "--yes")
    run(broker, "delete", group.id, "--yes")
    assert group.id not in [row["group"] for row in rows(broker, "list")]
