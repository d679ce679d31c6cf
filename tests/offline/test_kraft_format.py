"""`pylogbroker storage`: directories of a member of a cluster of KRaft controllers."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from click.testing import CliRunner

from pylogbroker.cli import main
from pylogbroker.config import properties
from pylogbroker.metadata.zk_schema import parse_id

CLUSTER = "MkU3OEVBNTcwNTJENDM2Qk"


def settings(tmp_path: Path, *names: str, **others: str) -> Path:
    file = tmp_path / "server.properties"
    given = {
        "process.roles": "broker",
        "node.id": "9",
        "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": ",".join(str(tmp_path / name) for name in names or ("data",)),
    } | others
    file.write_text("".join(f"{name}={text}\n" for name, text in given.items()))
    return file


def run(file: Path, *arguments: str, cluster_id: str = CLUSTER) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["storage", "format", "-t", cluster_id, "-c", str(file), *arguments])
    return done.exit_code, done.output


def meta(directory: Path) -> dict[str, str]:
    return dict(properties.loads((directory / "meta.properties").read_text()))


def test_each_directory_gets_an_id_of_its_own(tmp_path: Path) -> None:
    code, output = run(settings(tmp_path, "one", "two"))
    assert code == 0, output
    one, two = meta(tmp_path / "one"), meta(tmp_path / "two")
    assert {key: one.pop(key) for key in ("version", "node.id", "cluster.id")} == {
        "version": "1",
        "node.id": "9",
        "cluster.id": CLUSTER,
    }
    ids = {parse_id(one["directory.id"]), parse_id(two["directory.id"])}
    assert len(ids) == 2
    assert min(ids) >= uuid.UUID(int=100)
    assert f"{tmp_path / 'one'} is formatted: broker 9 of cluster {CLUSTER}" in output


def test_a_formatted_directory_stays(tmp_path: Path) -> None:
    run(settings(tmp_path, "one"))
    before = meta(tmp_path / "one")
    file = settings(tmp_path, "one", "two")
    code, output = run(file)
    assert (code, "is formatted already; --ignore-formatted" in output) == (1, True)
    assert not (tmp_path / "two").exists()
    code, output = run(file, "--ignore-formatted")
    assert code == 0, output
    assert meta(tmp_path / "one") == before
    assert meta(tmp_path / "two")["cluster.id"] == CLUSTER


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"node.id": "8"}, "is formatted for node.id 9"),
        ({"process.roles": ""}, "process.roles is not broker"),
        ({"zookeeper.connect": "localhost:2181"}, "together with zookeeper.connect"),
        ({"controller.quorum.bootstrap.servers": ""}, "set controller.quorum.bootstrap.servers"),
        ({"controller.listener.names": ""}, "set controller.listener.names"),
        ({"node.id": "-1"}, "set node.id"),
        ({"process.roles": "controller"}, "expected broker"),
    ],
)
def test_wrong_settings_change_nothing(tmp_path: Path, changed: dict[str, str], reason: str) -> None:
    run(settings(tmp_path))
    before = meta(tmp_path / "data")
    code, output = run(settings(tmp_path, **changed))
    assert code == 1
    assert reason in " ".join(output.split())
    assert meta(tmp_path / "data") == before


def test_a_directory_of_another_cluster_is_not_taken(tmp_path: Path) -> None:
    file = settings(tmp_path)
    run(file)
    code, output = run(file, cluster_id="bm90IHRoaXMgY2x1c3Rlcg")
    assert code == 1
    assert f"of cluster {CLUSTER}" in output


@pytest.mark.parametrize("cluster_id", ["MkU3OEVBNTcwNTJENDM2Qg==", "nonsense", "a/b:c"])
def test_an_id_may_be_any_that_controllers_are_formatted_with(tmp_path: Path, cluster_id: str) -> None:
    """Kafka's `kafka-storage format` checks none."""
    file = settings(tmp_path)
    assert run(file, cluster_id=cluster_id)[0] == 0
    assert meta(tmp_path / "data")["cluster.id"] == cluster_id
    assert run(file, "--ignore-formatted", cluster_id=cluster_id)[0] == 0


@pytest.mark.parametrize("cluster_id", ["", "two words", "x" * 129])
def test_an_invalid_id_of_a_cluster_is_rejected(tmp_path: Path, cluster_id: str) -> None:
    code, output = run(settings(tmp_path), cluster_id=cluster_id)
    assert (code, "is no id of a cluster" in output) == (1, True)
    assert not (tmp_path / "data").exists()


def test_data_is_not_formatted_over(tmp_path: Path) -> None:
    (tmp_path / "data" / "orders_0").mkdir(parents=True)
    code, output = run(settings(tmp_path))
    assert (code, "holds orders_0" in output) == (1, True)
    assert not (tmp_path / "data" / "meta.properties").exists()


def test_a_new_id_is_one_of_a_cluster(tmp_path: Path) -> None:
    cluster_id = CliRunner().invoke(main, ["storage", "random-uuid"]).output.strip()
    assert run(settings(tmp_path), cluster_id=cluster_id)[0] == 0
