"""Log directories with ids: which one is where, and which one is missing."""

from __future__ import annotations

import errno
from pathlib import Path

import javaproperties
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylogbroker.errors import StartupError
from pylogbroker.storage import LogManager
from pylogbroker.storage.logdirs.log_directories import expected_ids, unexpected_directories
from tests.broker.failing_disks import broken, failing

PATHS = ("/a", "/b", "/c")
IDS = ("A", "B", "C", "D")


def started(remembered: dict[str, str], *paths: Path, certain: Path | str = "") -> tuple[LogManager, dict[str, str]]:
    """A start, and what it wants to be remembered."""
    manager = LogManager([str(path) for path in paths])
    manager.directories.read_identity()
    manager.directories.check_ids(remembered, str(certain))
    manager.directories.lock()
    manager.directories.claim(3, "cluster")
    return manager, manager.directories.expected_ids(remembered)


def id_of(path: Path) -> str:
    with (path / "meta.properties").open() as file:
        return str(javaproperties.load(file)["directory.id"])


def offline(manager: LogManager) -> list[str]:
    return [directory.path for directory in manager.directories if directory.failure]


class TestDirectories:
    """Directories on the disk."""

    def test_directory_ids_survive_a_restart(self, tmp_path: Path) -> None:
        manager, remembered = started({}, tmp_path / "a", tmp_path / "b")
        ids = {str(path): id_of(path) for path in (tmp_path / "a", tmp_path / "b")}
        assert remembered == ids
        assert len(set(ids.values())) == 2
        manager.close()
        manager, again = started(remembered, tmp_path / "a", tmp_path / "b")
        assert again == ids == {path: id_of(Path(path)) for path in ids}
        assert offline(manager) == []

    def test_an_old_directory_without_id_gets_one(self, tmp_path: Path) -> None:
        meta = tmp_path / "meta.properties"
        meta.write_text("version=0\nbroker.id=3\ncluster.id=cluster\n")
        _, remembered = started({}, tmp_path)
        assert remembered == {str(tmp_path): id_of(tmp_path)}
        assert "broker.id=3\n" in meta.read_text()

    def test_an_old_directory_on_a_full_disk_gets_its_id_later(self, tmp_path: Path) -> None:
        meta = tmp_path / "meta.properties"
        meta.write_text("version=0\nbroker.id=3\ncluster.id=cluster\n")
        with broken("fsync", str(tmp_path), failing(errno.ENOSPC)):
            manager, remembered = started({}, tmp_path)
        assert not offline(manager)
        assert remembered == {}
        manager.close()
        _, remembered = started({}, tmp_path)
        assert remembered == {str(tmp_path): id_of(tmp_path)}

    def test_the_directory_of_the_tree_needs_no_id(self, tmp_path: Path) -> None:
        manager, remembered = started({}, tmp_path)
        manager.close()
        (tmp_path / "meta.properties").unlink()
        manager, again = started(remembered, tmp_path, certain=tmp_path)
        assert again == remembered == {str(tmp_path): id_of(tmp_path)}

    def test_a_directory_that_lost_its_id_is_rejected(self, tmp_path: Path) -> None:
        manager, remembered = started({}, tmp_path / "a", tmp_path / "b")
        manager.close()
        meta = tmp_path / "b" / "meta.properties"
        meta.write_text("".join(line for line in meta.open() if "directory.id" not in line))
        before = meta.read_bytes()
        manager, again = started(remembered, tmp_path / "a", tmp_path / "b")
        assert offline(manager) == [str(tmp_path / "b")]
        assert meta.read_bytes() == before
        assert again == remembered

    def test_a_copy_is_rejected(self, tmp_path: Path) -> None:
        manager, remembered = started({}, tmp_path / "a")
        manager.close()
        (tmp_path / "b").mkdir()
        (tmp_path / "b" / "meta.properties").write_bytes((tmp_path / "a" / "meta.properties").read_bytes())
        with pytest.raises(StartupError, match=r"a and .*b have the same directory\.id"):
            started(remembered, tmp_path / "a", tmp_path / "b")


class TestSwitched:
    """Directories that change places while another one is missing."""

    def test_a_missing_directory_is_expected_at_the_free_path(self) -> None:
        remembered = {"/a": "A", "/b": "B", "/c": "C"}
        found = {"/a": "A", "/b": "C", "/c": None}
        assert unexpected_directories(found, remembered) == {"/c": "C"}
        later = expected_ids(found, remembered)
        assert later == {"/a": "A", "/b": "C", "/c": "B"}
        assert unexpected_directories({**found, "/c": "B"}, later) == {}

    def test_unused_directories_are_forgotten(self) -> None:
        assert expected_ids({"/a": "A"}, {"/a": "A", "/b": "B"}) == {"/a": "A"}

    @given(
        st.permutations(IDS).map(lambda ids: dict(zip(PATHS, ids, strict=False))),
        st.permutations([*IDS, None]).map(lambda ids: dict(zip(PATHS, ids, strict=False))),
    )
    def test_missing_directories_are_remembered(self, remembered: dict[str, str], found: dict[str, str | None]) -> None:
        """Missing ids are expected as long as the paths are the same, and no other directory is accepted."""
        rejected = unexpected_directories(found, remembered)
        taken = {path: None if path in rejected else own for path, own in found.items()}
        assert set(taken.values()) - {None} == set(remembered.values()) & set(found.values())
        assert set(expected_ids(taken, remembered).values()) == set(remembered.values())
