"""Settings of several brokers on one machine, from those of one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pylogbroker.errors import ConfigError, StartupError
from pylogbroker.tap.brokers.data import known_ids
from pylogbroker.tap.brokers.plan import check_shrinking, parse_count, plan


def listeners(text: str, count: int) -> list[str]:
    return [broker.overrides["listeners"] for broker in plan({"listeners": text}, count).brokers]


def test_ports_follow_each_other() -> None:
    assert [broker.overrides["listeners"] for broker in plan({}, 3).brokers] == [
        f"PLAINTEXT://127.0.0.1:{port}" for port in (9092, 9093, 9094)
    ]
    assert listeners("PLAINTEXT://[::1]:7000-7009", 2) == ["PLAINTEXT://[::1]:7000", "PLAINTEXT://[::1]:7001"]
    assert listeners("PLAINTEXT://:0", 2) == ["PLAINTEXT://:0"] * 2
    assert listeners("PLAINTEXT://a:70,SIMPLE://a:80", 2) == [
        "PLAINTEXT://a:70,SIMPLE://a:80",
        "PLAINTEXT://a:71,SIMPLE://a:81",
    ]


def test_advertised_listeners_follow_too() -> None:
    settings = {"listeners": "PLAINTEXT://:9092", "advertised.listeners": "PLAINTEXT://host:19000"}
    advertised = [broker.overrides["advertised.listeners"] for broker in plan(settings, 2).brokers]
    assert advertised == ["PLAINTEXT://host:19000", "PLAINTEXT://host:19001"]


def test_directories_and_ids() -> None:
    planned = plan({"log.dirs": "/a,/b", "metadata.log.dir": "/m"}, 3, [7, 9]).brokers
    assert [broker.id for broker in planned] == [7, 9, 0]
    directories = [["/a", "/b"], ["/a/brokers/9", "/b/brokers/9"], ["/a/brokers/0", "/b/brokers/0"]]
    assert [list(broker.log_directories) for broker in planned] == directories
    assert [broker.overrides["log.dirs"].split(",") for broker in planned] == directories
    generated, other = plan({}, 2, [1001]).brokers
    assert (generated.id, other.id, generated.overrides.get("broker.id")) == (1001, 0, None)
    assert plan({"log.dirs": "/a,/b", "metadata.log.dir": "/m"}, 2).tree_directory == "/m"
    assert plan({"log.dirs": "/a,/b"}, 2).tree_directory == "/a"


def test_internal_topics_have_one_replica_unless_more_are_wanted() -> None:
    name = "offsets.topic.replication.factor"
    assert [broker.overrides.get(name) for broker in plan({}, 2).brokers] == ["1", "1"]
    assert name not in plan({name: "2"}, 2).brokers[0].overrides


def test_the_tree_is_no_listener_of_a_broker() -> None:
    settings = {"listeners": "PLAINTEXT://:9092,ZOOKEEPER://127.0.0.1:2181"}
    planned = plan(settings, 1)
    assert planned.tree_listeners == [("127.0.0.1", 2181)]
    assert planned.brokers[0].overrides["listeners"] == "PLAINTEXT://:9092"


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"zookeeper.connect": "a:2181"}, "--brokers starts a cluster of its own"),
        ({"listeners": "PLAINTEXT://:9092-9093"}, "has 2 ports for 3 brokers"),
        ({"listeners": "PLAINTEXT://:9093-9092"}, "has 0 ports for 3 brokers"),
        ({"listeners": "PLAINTEXT://:65534"}, "goes beyond port 65535"),
        ({"listeners": "PLAINTEXT://:9092,SIMPLE://:9093"}, "two brokers would listen on :9093"),
        ({"listeners": "nonsense"}, "expected NAME://host:port, or a range of ports"),
        ({"listeners": "PLAINTEXT://:9092,ZOOKEEPER://a:1-2"}, "expected ZOOKEEPER://host:port"),
        ({"listeners": "ZOOKEEPER://a:2181"}, "listeners"),
        ({"num.partitions": "x"}, "num.partitions"),
    ],
)
def test_wrong_settings(settings: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        plan(settings, 3)


def test_numbers_of_brokers() -> None:
    assert parse_count("12") == 12
    assert parse_count("auto") == len(os.sched_getaffinity(0))
    for text in ("0", "-1", "1001", "many", "1.5", ""):
        with pytest.raises(ConfigError, match="expected auto, or a number from 1 to 1000"):
            parse_count(text)


def test_broker_ids_are_read_from_the_data(tmp_path: Path) -> None:
    assert known_ids([str(tmp_path)]) == []
    (tmp_path / "meta.properties").write_text("version=0\nbroker.id=1001\n")
    assert known_ids([str(tmp_path)]) == [1001]
    for name in ("3", "1", "notes"):
        (tmp_path / "brokers" / name).mkdir(parents=True)
    assert known_ids([str(tmp_path)]) == [1001, 1, 3]


def test_fewer_brokers_than_the_data_has() -> None:
    check_shrinking([0, 1], 2)
    with pytest.raises(StartupError, match=r"start with --brokers 3.* away from broker 1, 2 with"):
        check_shrinking([0, 1, 2], 1)
