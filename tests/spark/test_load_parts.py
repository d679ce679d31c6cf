"""Parts of a load: ranges, times, the manifest, and its target directory."""

from __future__ import annotations

import errno
import json
import os
import time
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from pathlib import Path

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylogbroker.config.times import milliseconds
from pylogbroker.errors import ConfigError
from pylogbroker.spark.loading.commit import write_manifest
from pylogbroker.spark.loading.intervals import apart, missing_in
from pylogbroker.spark.loading.load import _for_spark, load
from pylogbroker.spark.loading.manifest import BadManifest, Manifest, ManifestEntry, Part, path_of, range_of
from pylogbroker.spark.loading.parquet import FileLayout, FileWriter, packed, text_of, unpacked
from pylogbroker.spark.loading.store import Store, TargetInUse
from pylogbroker.spark.reading.slices import Slice

SPANS = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 8)).map(lambda each: (each[0], each[0] + each[1])))


@given(SPANS, st.integers(0, 20), st.integers(0, 20))
def test_missing_ranges_are_found(covered: list[tuple[int, int]], start: int, length: int) -> None:
    wanted = set(range(start, start + length)) - {n for first, end in covered for n in range(first, end)}
    found = missing_in(start, start + length, covered)
    assert [n for first, end in found for n in range(first, end)] == sorted(wanted)
    assert all(first < end for first, end in found)
    assert all(one[1] < other[0] for one, other in pairwise(found))


@given(SPANS, SPANS)
def test_overlapping_ranges_are_left_out(candidates: list[tuple[int, int]], taken: list[tuple[int, int]]) -> None:
    found = apart(candidates, taken, lambda each: each)
    offsets = [n for first, end in found for n in range(first, end)]
    used = {n for first, end in taken for n in range(first, end)}
    assert len(offsets) == len(set(offsets))
    assert not used & set(offsets)
    for first, end in set(candidates) - set(found):
        assert (used | set(offsets)) & set(range(first, end))


# -- times ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, None),
        (1_700_000_000_000, 1_700_000_000_000),
        ("1700000000000", 1_700_000_000_000),
        ("2023-11-14T22:13:20Z", 1_700_000_000_000),
        ("2023-11-15T00:13:20+02:00", 1_700_000_000_000),
        ("2023-11-14 22:13:20", 1_700_000_000_000),
        ("2023-11-14", 1_699_920_000_000),
        (datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC), 1_700_000_000_000),
        (datetime(2023, 11, 14, 20, 13, 20, 1, tzinfo=timezone(timedelta(hours=-2))), 1_700_000_000_001),
    ],
)
def test_times(given: object, expected: int | None) -> None:
    assert milliseconds("since", given) == expected  # type: ignore[arg-type]


def test_times_ago() -> None:
    for text, seconds in (("90s", 90), ("30m", 1800), ("12h", 43_200), ("7d", 604_800)):
        before_ms = int(time.time() * 1000)
        found = milliseconds("since", text)
        assert found is not None
        assert before_ms <= found + seconds * 1000 <= time.time() * 1000


@pytest.mark.parametrize("given", ["yesterday", "", "-5", -1, True, 1.5, datetime(2023, 11, 14)])
def test_invalid_times_are_rejected(given: object) -> None:
    with pytest.raises(ConfigError, match=r"^since: "):
        milliseconds("since", given)  # type: ignore[arg-type]


# -- the manifest -----------------------------------------------------------------------------------------------------


ENTRY = ManifestEntry(topic="a.b-c", partition=3, start=5, end=9, generation=2, path="x", records=4, bytes=7, since=1)
EMPTY = Manifest(schema="n: int64", arrow=packed(pa.schema([("n", pa.int64())])))


def test_a_manifest_is_read_as_it_was_written() -> None:
    lost = attrs.evolve(ENTRY, start=9, end=10, path=None, gap="it is gone", is_old=True)
    full = attrs.evolve(EMPTY, topics={"a": "id"}, begins={("a", 0): 5}, entries=(ENTRY, lost))
    replaying = full.with_replay("asked", "n: int64", "x", [Part(Slice("a", 0, 5, 9), 1), Part(Slice("a", 0, 9, 12))])
    for manifest in (EMPTY, full, replaying, replaying.switched([ENTRY], 12.5)):
        assert Manifest.of_json(manifest.to_json()) == manifest
    assert unpacked(EMPTY.arrow) == pa.schema([("n", pa.int64())])


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"{}", b'{"version": 2}', b'{"version": 1}'])
def test_invalid_manifests_are_rejected(text: bytes) -> None:
    with pytest.raises(BadManifest):
        Manifest.of_json(text)


def test_names() -> None:
    assert path_of(ENTRY) == f"00002/a.b-c-3/a.b-c-3-{5:020}-{9:020}.parquet"
    assert range_of(os.path.basename(path_of(ENTRY))) == (5, 9)
    assert path_of(attrs.evolve(ENTRY, topic="_x")).startswith("00002/%5Fx-3/%5Fx-3-")
    for name in ("a-0-1-2.parquet", "notes.parquet", f"a-0-{5:020}-{9:020}.tmp", f".a-0-{5:020}.x.y.tmp"):
        assert range_of(name) is None
    assert _for_spark("/a{b}[c]*?\\d") == "/a\\{b\\}\\[c\\]\\*\\?\\\\d"


# -- the directory ----------------------------------------------------------------------------------------------------


def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    store = Store.of(tmp_path / "new")
    child = os.fork()
    if not child:
        with store.locked():
            os.kill(os.getpid(), 9)
    os.waitpid(child, 0)
    with store.locked(), pytest.raises(TargetInUse, match=f"process {os.getpid()} on "), store.locked():
        pass


def test_a_uri_of_a_file_system_of_arrows(tmp_path: Path) -> None:
    store = Store.of(f"file://{tmp_path}")
    assert (store.is_local, store.target) == (True, str(tmp_path))
    with pytest.raises(ConfigError, match="cannot be opened"):
        Store.of("nonsense://somewhere")


def test_without_a_lock_the_revision_is_looked_at(tmp_path: Path) -> None:
    remote = attrs.evolve(Store.of(tmp_path), is_local=False)
    first = write_manifest(remote, EMPTY)
    write_manifest(remote, first)
    with pytest.raises(TargetInUse, match="its manifest has changed meanwhile"):
        write_manifest(remote, first)


def test_another_kind_of_file_system(tmp_path: Path) -> None:
    """Use a file system as object stores are used: through Arrow alone."""
    remote = attrs.evolve(Store.of(tmp_path), is_local=False)
    file = remote.create("deep/er/.begun")
    writer = FileWriter(file, pa.schema([("n", pa.int64())]), FileLayout())
    writer.add(pa.record_batch({"n": [1, 2]}))
    writer.finish({"a": "b"})
    assert remote.files("deep/er").keys() == {".begun"}
    remote.publish(file, "deep/er/.begun", "deep/er/whole")
    assert pq.read_table(tmp_path / "deep/er/whole").to_pydict() == {"n": [1, 2]}
    assert remote.files("deep/er").keys() == {"whole"}


def test_a_full_disk_leaves_the_manifest_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store.of(tmp_path)
    before = write_manifest(store, EMPTY)

    def full(number: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_manifest(store, before.with_entries([ENTRY]))
    assert json.loads((tmp_path / "manifest.json").read_bytes())["entries"] == []


def test_schemas_as_text() -> None:
    schema = pa.schema([pa.field("n", pa.int64(), nullable=False), ("tags", pa.list_(pa.string()))])
    assert text_of(schema) == "n: int64 not null\ntags: list<item: string>"


# -- arguments --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "reported"),
    [
        ({"options": {"startingOffsets": "latest"}}, "option startingOffsets has no meaning for a load"),
        ({"options": {"subscribe": "a"}}, "option subscribe has no meaning for a load"),
        ({"options": {"kafka.bootstrap.servers": "a:1"}}, "option kafka.bootstrap.servers has no meaning"),
        ({"options": {"failOnDataLoss": "perhaps"}}, "option failOnDataLoss: 'perhaps'"),
        ({"options": {"kafka.auto.offset.reset": "latest"}}, "option kafka.auto.offset.reset is not accepted"),
        ({"since": "soon"}, "since: 'soon' is not a time"),
        ({"since": 5, "until": 5}, "until must be later than since"),
        ({"file_size": 0}, "file_size: 0 is not accepted"),
        ({"compression": "zip"}, "compression: 'zip' is not accepted"),
        ({"topics": []}, "option subscribe: it names no topic"),
        ({"bootstrap_servers": " "}, "option kafka.bootstrap.servers is missing"),
        ({"target": ""}, "target: it is empty"),
        ({"mapping": lambda rows: pa.record_batch({"n": pa.array([])})}, "a column n of the type null"),
        ({"mapping": lambda rows: rows.select([])}, "the mapping returns no columns"),
        *(
            (
                {"mapping": lambda rows, kind=kind: pa.record_batch({"n": pa.nulls(0, kind)})},
                "which Spark cannot read",
            )
            for kind in (pa.uint32(), pa.time64("us"), pa.list_(pa.timestamp("ns")), pa.decimal256(50), pa.date64())
        ),
        (
            {"mapping": lambda rows: pa.record_batch([pa.array([1]), pa.array([2])], names=["a", "A"])},
            "two columns a, which Spark cannot distinguish",
        ),
    ],
)
def test_wrong_arguments(tmp_path: Path, given: dict[str, object], reported: str) -> None:
    arguments: dict[str, object] = {
        "bootstrap_servers": "127.0.0.1:1",
        "topics": "a",
        "target": tmp_path / "x",
        **given,
    }
    with pytest.raises(ConfigError, match=reported):
        load(None, **arguments)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []
