"""The mark of a store: written once, remembered in the log directories, and missed afterwards."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pylogbroker.storage.remote.checked_store import CheckedStore, StoreFailure
from pylogbroker.storage.remote.store_marker import FILE, StoreMarker
from tests.storage.remote.stores import FailingStore, MemoryStore


def marker(store: MemoryStore, *paths: Path, cluster: str = "c1") -> StoreMarker:
    return StoreMarker(CheckedStore(store), cluster, lambda: map(str, paths))


def test_a_new_store_is_marked_and_remembered(tmp_path: Path) -> None:
    store = MemoryStore()
    marker(store, tmp_path).check()
    assert store.objects == {"clusters/c1": b"c1"}
    assert (tmp_path / FILE).read_text() == "c1"
    marker(store, tmp_path).check()
    with pytest.raises(StoreFailure, match="it lacks the object clusters/c1, which this cluster keeps there"):
        marker(MemoryStore(), tmp_path).check()


def test_a_mark_that_goes_while_the_broker_runs_is_missed(tmp_path: Path) -> None:
    store = MemoryStore()
    own = marker(store, tmp_path)
    own.check()
    store.objects.clear()
    with pytest.raises(StoreFailure):
        own.check()
    assert store.objects == {}


def test_one_log_directory_that_remembers_is_enough(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    first.mkdir()
    second.mkdir()
    marker(MemoryStore(), first).check()
    with pytest.raises(StoreFailure):
        marker(MemoryStore(), second, first).check()


def test_a_directory_of_another_cluster_remembers_nothing(tmp_path: Path) -> None:
    marker(MemoryStore(), tmp_path).check()
    marker(MemoryStore(), tmp_path, cluster="c2").check()


def test_a_store_that_cannot_be_marked_is_not_remembered(tmp_path: Path) -> None:
    with pytest.raises(StoreFailure):
        marker(FailingStore(fails_at=0, error=OSError("full")), tmp_path).check()
    assert not (tmp_path / FILE).exists()


def test_a_full_log_directory_stops_nothing(tmp_path: Path) -> None:
    store, missing = MemoryStore(), tmp_path / "missing"
    own = marker(store, missing)
    own.check()
    missing.mkdir()
    own.check()
    assert os.listdir(missing) == [FILE]


def test_strange_ids_have_a_name_of_hexadecimal_digits(tmp_path: Path) -> None:
    name = marker(MemoryStore(), tmp_path, cluster="../é").name
    assert name.startswith("clusters/")
    assert len(name) == len("clusters/") + 64
