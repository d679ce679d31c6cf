"""Preflight checks of directories: one line of error, and nothing is created, changed or locked."""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pylogbroker.config import BrokerConfig, Listener
from pylogbroker.errors import StartupError
from pylogbroker.tap import preflight
from pylogbroker.tap.preflight import check_ports

SEGMENT = "00000000000000000000"


def config(*directories: Path, **settings: str) -> BrokerConfig:
    named = {name.replace("_", "."): text for name, text in settings.items()}
    return BrokerConfig({"log.dirs": ",".join(map(str, directories))} | named)


def everything(root: Path) -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in root.rglob("*")}


def data(directory: Path, *partitions: str, broker: str = "", cluster: str = "C", tree: bool = False) -> Path:
    """A directory with partitions in it, as a broker leaves it."""
    for name in partitions:
        (directory / name).mkdir(parents=True)
        (directory / name / f"{SEGMENT}.kafka").touch()
    directory.mkdir(exist_ok=True)
    if broker:
        (directory / "meta.properties").write_text(f"version=0\nbroker.id={broker}\ncluster.id={cluster}\n")
    if tree:
        (directory / "coordination.sqlite").write_bytes(b"SQLite format 3\0")
    return directory


@contextmanager
def rejected(root: Path, error_line: str) -> Iterator[pytest.ExceptionInfo[StartupError]]:
    before = everything(root)
    with pytest.raises(StartupError) as caught:
        yield caught
    assert error_line in str(caught.value)
    assert "\n" not in str(caught.value)
    assert everything(root) == before


class TestTree:
    """The file with the topics must be where the broker looks for it."""

    def test_a_tree_in_another_log_directory(self, tmp_path: Path) -> None:
        old = data(tmp_path / "old", "t_0", broker="1001", tree=True)
        error_line = f"is in {old} and not in {tmp_path}/new: set metadata.log.dir={old}"
        with rejected(tmp_path, error_line):
            preflight.check(config(tmp_path / "new", old))
        preflight.check(config(tmp_path / "new", old, metadata_log_dir=str(old)))
        preflight.check(config(old, tmp_path / "new"))

    def test_a_missing_tree_with_partitions(self, tmp_path: Path) -> None:
        left = data(tmp_path / "left", "t_0")
        with rejected(
            tmp_path, f"{left} holds data, but {left}/coordination.sqlite, which lists the topics, is missing"
        ):
            preflight.check(config(left))
        with rejected(tmp_path, "rebuild it from the logs with `pylogbroker coordination rebuild`"):
            preflight.check(config(left))

    def test_an_empty_tree_file(self, tmp_path: Path) -> None:
        left = data(tmp_path / "left", "t_0")
        (left / "coordination.sqlite").touch()
        with rejected(tmp_path, "is missing or empty: restore it, or set metadata.log.dir"):
            preflight.check(config(left))

    def test_a_missing_tree_with_data_of_a_cluster(self, tmp_path: Path) -> None:
        left = data(tmp_path / "left", broker="1001")
        with rejected(tmp_path, f"{left} holds data, but {tmp_path}/m/coordination.sqlite"):
            preflight.check(config(left, metadata_log_dir=str(tmp_path / "m")))

    def test_several_brokers_without_their_tree(self, tmp_path: Path) -> None:
        """The tree of several brokers cannot be rebuilt."""
        first, second = data(tmp_path / "data"), data(tmp_path / "data" / "brokers" / "1", "t_0")
        paths = [str(first), str(second)]
        with rejected(tmp_path, f"{second} holds data, but {first}/coordination.sqlite") as caught:
            preflight.check_data_of_several(str(first), paths)
        assert "rebuild" not in str(caught.value)
        data(first, tree=True)
        preflight.check_data_of_several(str(first), paths)

    def test_directories_that_merely_look_like_partitions_are_no_data(self, tmp_path: Path) -> None:
        (tmp_path / "backup_2024").mkdir()
        (tmp_path / "backup_2024" / "notes.kafka").touch()
        preflight.check(config(tmp_path))


class TestKafkasData:
    """Directories that Apache Kafka wrote."""

    def check(self, directory: Path) -> None:
        line = f"{directory} holds data of Apache Kafka, which pylogbroker does not read: choose another directory"
        with rejected(directory, line):
            preflight.check(config(directory))
        with rejected(directory, line):
            preflight.check_data_of_several(str(directory), [str(directory)])

    def test_partitions(self, tmp_path: Path) -> None:
        (tmp_path / "lines-0").mkdir()
        (tmp_path / "lines-0" / f"{SEGMENT}.log").touch()
        (tmp_path / "meta.properties").write_text("version=0\nbroker.id=0\ncluster.id=C\n")
        self.check(tmp_path)

    @pytest.mark.parametrize("meta", ["version=1\nnode.id=1\ncluster.id=C\n", "version=0\nnode.id=1\n", "version=1\n"])
    def test_marks_of_kraft(self, tmp_path: Path, meta: str) -> None:
        (tmp_path / "meta.properties").write_text(meta)
        with rejected(tmp_path, "is formatted for a cluster of KRaft controllers: set process.roles=broker and "):
            preflight.check(config(tmp_path))
        with rejected(tmp_path, "is formatted for a cluster of KRaft controllers"):
            preflight.check_data_of_several(str(tmp_path), [str(tmp_path)])

    def test_other_directories_with_a_number_are_let_be(self, tmp_path: Path) -> None:
        (tmp_path / "backup-2024").mkdir()
        (tmp_path / "backup-2024" / "dpkg.log").touch()
        preflight.check(config(tmp_path))


class TestIdentity:
    """Whose data it is."""

    @pytest.mark.parametrize(
        ("theirs", "remedy"),
        [("7", "set broker.id=7"), ("1001", "remove broker.id from the settings; the broker finds its id in its data")],
    )
    def test_data_of_another_broker(self, tmp_path: Path, theirs: str, remedy: str) -> None:
        there = data(tmp_path / "d", broker=theirs, tree=True)
        with rejected(tmp_path, f"{there} holds the data of broker {theirs}, this is broker 0: {remedy}"):
            preflight.check(config(there, broker_id="0"))
        preflight.check(config(there, **({"broker_id": theirs} if remedy.startswith("set") else {})))

    @pytest.mark.parametrize(
        ("broker", "cluster", "what"), [("2", "C", "broker.id is 1 in one and 2"), ("1", "D", "cluster.id is C in")]
    )
    def test_data_of_two(self, tmp_path: Path, broker: str, cluster: str, what: str) -> None:
        one = data(tmp_path / "a", broker="1", tree=True)
        other = data(tmp_path / "b", broker=broker, cluster=cluster)
        with rejected(tmp_path, f"{one} and {other} do not belong together: {what}"):
            preflight.check(config(one, other))

    @pytest.mark.parametrize("content", ["rubbish", "version=0\nbroker.id=x\n", "version=\\u12"])
    def test_rubbish(self, tmp_path: Path, content: str) -> None:
        (tmp_path / "meta.properties").write_text(content)
        with rejected(tmp_path, f"{tmp_path}/meta.properties is damaged: "):
            preflight.check(config(tmp_path))


class TestUse:
    """Directories that cannot be used."""

    @contextmanager
    def held(self, path: Path) -> Iterator[None]:
        path.parent.mkdir(exist_ok=True)
        with path.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def test_a_directory_in_use_among_several(self, tmp_path: Path) -> None:
        with self.held(tmp_path / "busy" / ".lock"), rejected(tmp_path, f"{tmp_path}/busy is in use by another broker"):
            preflight.check(config(tmp_path / "free", tmp_path / "busy"))

    def test_the_coordination_is_in_use(self, tmp_path: Path) -> None:
        busy = tmp_path / "m"
        with self.held(busy / "coordination.lock"), rejected(tmp_path, f"{busy} is in use by another broker"):
            preflight.check(config(tmp_path / "free", metadata_log_dir=str(busy)))

    def test_the_look_holds_nothing(self, tmp_path: Path) -> None:
        (tmp_path / ".lock").touch()
        preflight.check(config(tmp_path))
        with (tmp_path / ".lock").open() as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    @pytest.mark.parametrize("broken", ["file", "file/below"])
    def test_the_coordination_cannot_be_there(self, tmp_path: Path, broken: str) -> None:
        (tmp_path / "file").touch()
        error_line = (
            f"{tmp_path}/{broken} cannot be used: Not a directory; "
            "it is the coordination directory: metadata.log.dir, by default the first of log.dirs"
        )
        with rejected(tmp_path, error_line):
            preflight.check(config(tmp_path / broken, tmp_path / "good"))
        preflight.check(config(tmp_path / "good", tmp_path / broken))
        with rejected(tmp_path, f"{tmp_path}/{broken} cannot be used: Not a directory; choose another directory with "):
            preflight.check(config(tmp_path / broken))

    def test_a_name_that_is_not_utf_8(self, tmp_path: Path) -> None:
        with rejected(tmp_path, "is not in UTF-8"):
            preflight.check(config(Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))))


class TestPorts:
    """Ports that cannot all be listened on."""

    @pytest.mark.parametrize(
        ("one", "other"), [("127.0.0.1", "localhost"), ("127.0.0.1", "0.0.0.0"), ("", "127.0.0.1"), ("::1", "::")]
    )
    def test_overlapping(self, one: str, other: str) -> None:
        port = free_port(one)
        with pytest.raises(StartupError, match=rf"cannot listen on B://\S*:{port}: Address already in use"):
            check_ports([listener("A", one, port), listener("B", other, port)])

    def test_a_host_of_another_machine(self) -> None:
        error_line = "cannot listen on A://192.0.2.1:0: Cannot assign requested address; choose a host of this machine "
        with pytest.raises(StartupError, match=error_line):
            check_ports([listener("A", "192.0.2.1", 0)])

    def test_free_ports_and_two_addresses_do_not_overlap(self) -> None:
        port = free_port("127.0.0.1")
        check_ports([listener("A", "127.0.0.1", 0), listener("B", "127.0.0.1", 0)])
        check_ports([listener("A", "127.0.0.1", port), listener("B", "127.0.0.2", port)])


def free_port(host: str) -> int:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def listener(name: str, host: str, port: int) -> Listener:
    return Listener(name, host, port, "PLAINTEXT", host, port)


def test_more_replicas_than_brokers_are_a_warning() -> None:
    (warning,) = preflight.warnings(BrokerConfig({"default.replication.factor": "3"}))
    assert warning.startswith("default.replication.factor is 3, but there is one broker: ")
    assert not list(preflight.warnings(BrokerConfig({})))
    in_cluster = {"default.replication.factor": "3", "zookeeper.connect": "a:1"}
    assert not list(preflight.warnings(BrokerConfig(in_cluster)))
