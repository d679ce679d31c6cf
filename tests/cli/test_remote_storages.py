"""Which brokers of an archived topic's replicas have the same remote storage."""

from __future__ import annotations

import json
from pathlib import Path
from unittest.mock import patch

import pytest
from click.testing import CliRunner

from pylogbroker.blocking.admin import BlockingAdmin
from pylogbroker.cli import main
from pylogbroker.cli.remote_storages import check_hosts, problems, remote_storages
from pylogbroker.errors import KafkaError
from pylogbroker.testing import Broker

A, B = "directory:/mnt/a", "directory:/mnt/b"


@pytest.mark.parametrize(
    ("replicas", "storages", "expected"),
    [
        ([1, 2], {1: A, 2: A, 3: ""}, []),
        ([1, 9], {1: A}, []),  # broker 9 is down
        (
            [3, 1, 2, 3],
            {1: A, 2: "", 3: ""},
            [
                "archived, but broker(s) 2, 3 have no remote storage: set remote.log.storage there, or move the "
                "replicas with pylogbroker reassign"
            ],
        ),
        (
            [1, 2],
            {1: A, 2: B},
            [
                f"all brokers need the same remote.log.storage, perhaps under other names: broker 1 has {A}, broker 2 "
                f"has {B}"
            ],
        ),
    ],
)
def test_problems(replicas: list[int], storages: dict[int, str], expected: list[str]) -> None:
    assert list(problems(replicas, storages)) == expected


def test_settings_of_brokers_are_asked(tmp_path: Path) -> None:
    settings = {"remote.log.storage.system.enable": "true", "remote.log.storage": f"directory:{tmp_path}"}
    for own, storage in ((settings, f"directory:{tmp_path}"), ({}, "")):
        with Broker(settings=own) as broker, BlockingAdmin({"bootstrap.servers": broker.bootstrap}, 60) as admin:
            [number] = broker.ids
            assert remote_storages(admin, [number]) == {number: storage}
            assert remote_storages(admin, [number + 1]) == {}  # it is not there


def test_an_archived_topic_is_described(tmp_path: Path) -> None:
    settings = {"remote.log.storage.system.enable": "true", "remote.log.storage": f"directory:{tmp_path}"}
    with Broker(settings=settings) as broker:
        run(broker, "create", "readings", "--config", "remote.storage.enable=true")
        [topic] = json.loads(run(broker, "describe", "readings", "--format", "json"))
        assert (topic["problems"], topic["partitions"][0]["local_start_offset"]) == ([], 0)
        storages = patch(
            "pylogbroker.cli.remote_storages.remote_storages", lambda admin, brokers: dict.fromkeys(brokers, "")
        )
        with storages:
            assert "\nreadings: archived, but broker(s) " in run(broker, "describe", "readings")


def test_an_archived_topic_is_not_moved_to_a_broker_without_a_remote_storage(tmp_path: Path) -> None:
    settings = {"remote.log.storage.system.enable": "true", "remote.log.storage": f"directory:{tmp_path}"}
    with Broker(settings=settings) as broker:
        run(broker, "create", "readings", "--config", "remote.storage.enable=true")
        run(broker, "create", "plain")
        without = lambda admin, brokers: dict.fromkeys(brokers, "")  # noqa: E731
        with (
            patch("pylogbroker.cli.remote_storages.remote_storages", without),
            BlockingAdmin({"bootstrap.servers": broker.bootstrap}, 60) as admin,
        ):
            check_hosts(admin, ["plain"], [7])
            check_hosts(admin, ["missing"], [7])  # as one whose settings the client may not see
            with pytest.raises(KafkaError, match=r"readings: archived, but broker\(s\) 7, 8 have no remote storage"):
                check_hosts(admin, ["plain", "readings"], [7, 8])
        command = ["reassign", "start", "readings", "--to", str(broker.ids[0]), "--yes", "-b", broker.bootstrap]
        result = CliRunner().invoke(main, command)
        assert "have no remote storage" not in result.output + result.stderr


def run(broker: Broker, *arguments: str) -> str:
    result = CliRunner().invoke(main, ["topic", *arguments, "-b", broker.bootstrap])
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout
