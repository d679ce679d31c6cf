"""Directories that are named like partitions and are none of the broker's: nothing is written into them."""

from __future__ import annotations

import struct
import uuid
import zlib
from pathlib import Path

import pytest

import pylogbroker.legacy07.storage  # noqa: F401  registers the message format
from pylogbroker.errors import StorageFailure
from pylogbroker.storage import LogConfig, LogManager, Notice, Recovered, load_logs
from tests.storage.support import NOW, fill

CONFIG = LogConfig()
TOPIC, OTHER = uuid.UUID(int=7), uuid.UUID(int=8)


def message(payload: bytes) -> bytes:
    """A message of Kafka 0.7."""
    return struct.pack(">ibBI", len(payload) + 6, 1, 0, zlib.crc32(payload)) + payload


def started(path: Path, topics: dict[tuple[str, int], uuid.UUID], reported: list[Notice | Recovered]) -> LogManager:
    manager = LogManager([str(path)])
    manager.directories.lock()
    manager.directories.claim(3, "cluster")
    load_logs(manager, lambda topic: CONFIG, NOW, reported.append, topics)
    return manager


def content(path: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in path.iterdir()}


def kafka07(path: Path, name: str) -> Path:
    path.mkdir()
    (path / name).write_bytes(message(b"one") + message(b"two"))
    return path


@pytest.mark.parametrize("name", ["00000000000.kafka", "00000000000000000000.kafka"])
@pytest.mark.parametrize("in_tree", [False, True])
def test_data_of_kafka07_is_left_alone(tmp_path: Path, name: str, in_tree: bool) -> None:
    found = kafka07(tmp_path / "my_topic_0", name)
    before = content(found)
    manager = started(tmp_path, {("my_topic", 0): TOPIC} if in_tree else {}, [])
    assert manager.logs == {}
    assert "pylogbroker migrate kafka07" in manager.foreign["my_topic", 0].reason
    with pytest.raises(StorageFailure, match=r"my_topic_0 holds data of Kafka 0\.7: .* start the broker again"):
        manager.create("my_topic", 0, CONFIG, NOW, topic_id=TOPIC, is_new=not in_tree)
    assert ("my_topic", 0) in manager.offline
    manager.close()
    assert content(found) == before


def test_a_directory_that_nobody_marked_is_left_alone(tmp_path: Path) -> None:
    notes = tmp_path / "backup_2024"
    notes.mkdir()
    (notes / "notes.txt").write_text("mine")
    manager = started(tmp_path, {}, [])
    assert manager.foreign["backup", 2024].reason == "was not written by this broker: move it away"
    manager.close()
    assert content(notes) == {"notes.txt": b"mine"}


def test_the_log_of_a_missing_topic_keeps_its_files_and_checkpoints(tmp_path: Path) -> None:
    manager = started(tmp_path, {}, [])
    fill(manager.create("events", 0, CONFIG, NOW, topic_id=TOPIC), 5)
    manager.close()
    before = content(tmp_path / "events_0")
    orphaned = started(tmp_path, {}, [])
    assert orphaned.foreign["events", 0].reason == "belongs to no topic"
    orphaned.close()
    assert content(tmp_path / "events_0") == before
    reported: list[Notice | Recovered] = []
    again = started(tmp_path, {("events", 0): TOPIC}, reported)
    assert again.logs["events", 0].log_end_offset == 5
    assert reported == []  # the checkpoint still said that all of it was safe


def test_the_log_of_a_topic_that_is_known_later_is_kept(tmp_path: Path) -> None:
    """The metadata at a start may be older than those of the last life."""
    manager = started(tmp_path, {}, [])
    fill(manager.create("events", 0, CONFIG, NOW, topic_id=TOPIC), 5)
    manager.close()
    again = started(tmp_path, {}, [])
    assert again.create("events", 0, CONFIG, NOW, topic_id=TOPIC).log_end_offset == 5
    assert (again.foreign, again.preferred) == ({}, {})
    assert not list(tmp_path.glob("*-stray"))


def test_a_new_topic_quarantines_the_log_of_a_deleted_one(tmp_path: Path) -> None:
    manager = started(tmp_path, {}, [])
    fill(manager.create("events", 0, CONFIG, NOW, topic_id=TOPIC), 5)
    manager.close()
    before = content(tmp_path / "events_0")
    again = started(tmp_path, {("events", 0): OTHER}, [])
    reported: list[object] = []
    log = again.create("events", 0, CONFIG, NOW, topic_id=OTHER, is_new=False, report=reported.append)
    assert log.log_end_offset == 0
    assert again.foreign == {}
    [stray] = tmp_path.glob("*-stray")
    assert content(stray) == before
    assert "another topic of that name" in str(reported[0])


def test_a_log_without_its_topic_id_belongs_to_the_topic(tmp_path: Path) -> None:
    manager = started(tmp_path, {}, [])
    fill(manager.create("events", 0, CONFIG, NOW, topic_id=TOPIC), 5)
    manager.close()
    (tmp_path / "events_0" / "partition.metadata").unlink()
    assert started(tmp_path, {("events", 0): TOPIC}, []).logs["events", 0].log_end_offset == 5


def without_id(path: Path) -> LogManager:
    """A start after a loss of power that took the topic's id from the disk, and the topic from the metadata."""
    manager = started(path, {}, [])
    fill(manager.create("events", 0, CONFIG, NOW, topic_id=TOPIC), 5)
    manager.close()
    (path / "events_0" / "partition.metadata").unlink()
    again = started(path, {}, [])
    assert again.foreign["events", 0].reason == "belongs to no topic"
    return again


def test_a_topic_that_is_known_later_has_the_log_without_an_id(tmp_path: Path) -> None:
    manager = without_id(tmp_path)
    assert manager.create("events", 0, CONFIG, NOW, topic_id=TOPIC, is_new=False).log_end_offset == 5
    manager.close()
    assert started(tmp_path, {("events", 0): TOPIC}, []).logs["events", 0].topic_id == TOPIC


def test_a_new_topic_quarantines_the_log_without_an_id(tmp_path: Path) -> None:
    manager, before = without_id(tmp_path), content(tmp_path / "events_0")
    assert manager.create("events", 0, CONFIG, NOW, topic_id=OTHER).log_end_offset == 0
    [stray] = tmp_path.glob("*-stray")
    assert content(stray) == before


@pytest.mark.parametrize("is_new", [False, True])
def test_a_topic_is_not_served_from_a_directory_of_somebody_else(tmp_path: Path, is_new: bool) -> None:
    notes = tmp_path / "backup_2024"
    notes.mkdir()
    (notes / "notes.txt").write_text("mine")
    manager = started(tmp_path, {}, [])
    with pytest.raises(StorageFailure, match="was not written by this broker: move it away, then start the broker"):
        manager.create("backup", 2024, CONFIG, NOW, topic_id=TOPIC, is_new=is_new)
    manager.close()
    assert content(notes) == {"notes.txt": b"mine"}
