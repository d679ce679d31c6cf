"""Random logs, cleaned again and again, against dictionaries: what a reader learns of a key never changes."""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pylogbroker.records import Codec, Record, TimestampType
from tests.storage.compaction.log_files import NOW, Batch, Files, Read
from tests.support.examples import examples

RETENTION = 1000
OLD_CODECS = {Codec.ZSTD: Codec.SNAPPY, Codec.LZ4: Codec.GZIP}  # kafka-python reads the odd LZ4 of v0 only with xxhash
FEW_KEYS = st.sampled_from([b"", b"a", b"b", b"c", b"key-d", b"e" * 20, b"f" * 1500])
MANY_KEYS = st.integers(0, 40).map(b"key %d".__mod__)
KEYS = st.one_of(FEW_KEYS, MANY_KEYS, MANY_KEYS)
SMALL = 64  # bytes for the map, which then has space for 13 keys: more than a batch has, fewer than a log
RECORDS = st.lists(
    st.builds(
        Record,
        st.just(0),
        st.integers(NOW - 5, NOW + 300),
        st.one_of(KEYS, KEYS, KEYS, st.none()),
        st.one_of(st.none(), st.binary(max_size=40), st.binary(min_size=120, max_size=300)),
        st.one_of(st.just(()), st.just((("h", b"x"), ("i", None)))),
    ),
    min_size=1,
    max_size=12,
)


@attrs.frozen
class Data:
    records: list[Record]
    codec: Codec
    magic: int
    producer: int
    transactional: bool
    append_time: bool


@attrs.frozen
class End:
    producer: int
    committed: bool


@attrs.frozen
class Roll:
    pass


@attrs.frozen
class Clean:
    wait_ms: int
    dedupe_bytes: int
    segment_bytes: int


DATA = st.builds(
    Data,
    RECORDS,
    st.sampled_from(Codec),
    st.sampled_from([2, 2, 2, 2, 1, 0]),
    st.integers(0, 3),
    st.booleans(),
    st.sampled_from([False, False, True]),
)
STEPS = st.lists(
    st.one_of(
        DATA,
        DATA,
        DATA,
        DATA,
        DATA,
        st.builds(End, st.integers(1, 3), st.booleans()),
        st.builds(Roll),
        st.builds(
            Clean, st.sampled_from([1, 600, 1500]), st.sampled_from([SMALL, 1 << 20]), st.sampled_from([1, 2000])
        ),
    ),
    min_size=10,
    max_size=60,
)


@attrs.define
class Model:
    """Records that were written, and their state."""

    files: Files
    now: int = NOW
    written: dict[int, Read] = attrs.field(factory=dict)
    owner: dict[int, tuple[int, int]] = attrs.field(factory=dict)  # offset of transactional data -> producer, first
    aborted: set[tuple[int, int]] = attrs.field(factory=set)
    batches: dict[int, Batch] = attrs.field(factory=dict)  # by base offset, as first written
    sequences: dict[int, int] = attrs.field(factory=dict)
    last: dict[int, int] = attrs.field(factory=dict)  # producer -> last offset of its last batch
    ends: set[int] = attrs.field(factory=set)  # last offsets of the segments there ever were
    kept_since: dict[int, int] = attrs.field(factory=dict)  # tombstone -> when a cleaning first kept it

    def run(self, step: Data | End | Roll | Clean) -> None:
        if isinstance(step, Data):
            self.append(step)
        elif isinstance(step, End):
            self.end(step)
        elif isinstance(step, Roll):
            self.files.roll()
        else:
            self.clean(step)

    def append(self, data: Data) -> None:
        magic = 2 if data.producer and data.magic < 2 else data.magic
        codec = data.codec if magic == 2 else OLD_CODECS.get(data.codec, data.codec)
        records = [attrs.evolve(r, headers=r.headers if magic == 2 else ()) for r in data.records]
        how: dict[str, Any] = {"magic": magic, "codec": codec}
        if data.append_time:
            how |= {"timestamp_type": TimestampType.LOG_APPEND_TIME, "append_time": self.now}
        transactional = data.producer > 0 and (data.transactional or data.producer in self.files.open)
        if data.producer:
            sequence = self.sequences.get(data.producer, 0)
            self.sequences[data.producer] = sequence + len(records)
            how |= {"producer_id": data.producer, "producer_epoch": 0, "base_sequence": sequence}
            how |= {"transactional": transactional}
        base = self.files.add(records, **how)
        for number, record in enumerate(records):
            timestamp = -1 if magic == 0 else self.now if data.append_time else record.timestamp
            self.written[base + number] = Read(base + number, timestamp, record.key, record.value, record.headers)
            if transactional:
                self.owner[base + number] = data.producer, self.files.open[data.producer]
        if data.producer:
            self.last[data.producer] = self.files.end - 1

    def end(self, step: End) -> None:
        first = self.files.open.get(step.producer)
        if first is None:
            return
        if not step.committed:
            self.aborted.add((step.producer, first))
        self.files.finish(step.producer, step.committed)

    def clean(self, step: Clean) -> None:
        self.now += step.wait_ms
        before = self.files.first_dirty
        cleaned = self.files.clean(
            self.now,
            delete_retention_ms=RETENTION,
            dedupe_bytes=step.dedupe_bytes,
            segment_bytes=step.segment_bytes,
            last_sequences=self.last,
        )
        assert cleaned.first_dirty_offset > before or self.cleanable_end() == before
        self.check()

    def cleanable_end(self) -> int:
        return max(base for base in self.files.bases if base <= self.files.stable)

    def is_aborted(self, offset: int) -> bool:
        return self.owner.get(offset) in self.aborted

    def check(self) -> None:
        reached = self.files.first_dirty
        self.ends.update(base - 1 for base in self.files.bases)
        batches = self.files.batches()
        found = {record.offset: record for record in self.files.records()}
        self.check_batches(batches)
        self.check_record_structure(found, reached)
        self.check_keys(found, reached)
        self.check_tombstones(batches, found, reached)
        self.check_transactions(found)
        for base in self.files.bases:
            self.check_indexes(base)

    def check_batches(self, batches: list[Batch]) -> None:
        """Offsets and producers never change; no segment ends before the next one begins."""
        for batch in batches:
            known = self.batches.setdefault(batch.base_offset, batch) if batch.magic == 2 else batch
            assert (batch.last_offset, batch.producer) == (known.last_offset, known.producer)
        for base, behind in zip(self.files.bases, self.files.bases[1:], strict=False):
            entries = self.files.segment(base)
            assert entries[-1].last_offset + 1 == behind
            assert base <= entries[0].base_offset
        present = {(batch.producer[0], batch.last_offset) for batch in batches}
        assert set(self.last.items()) <= present

    def check_record_structure(self, found: Mapping[int, Read], reached: int) -> None:
        """Remaining records are unchanged; only the last message of an old segment may have lost its value."""
        for offset, record in found.items():
            written = self.written[offset]
            if record != written:
                assert offset in self.ends
                assert record == attrs.evolve(written, value=None)
        assert {offset for offset in self.written if offset >= reached and not self.is_aborted(offset)} <= set(found)

    def check_keys(self, found: Mapping[int, Read], reached: int) -> None:
        """A reader, from wherever it begins, learns the last value of each key; there is nothing else to read."""
        latest: dict[bytes, Read] = {}
        for offset, record in sorted(self.written.items()):
            if not self.is_aborted(offset) and record.key is not None and offset < reached:
                latest[record.key] = record
        for record in latest.values():
            if record.value is not None:
                assert found[record.offset] == record
        for offset, record in found.items():
            if offset < reached and latest.get(record.key or b"", record).offset != offset:
                assert offset in self.ends
                assert record.value is None
            if offset < reached and record.key is None:
                assert offset in self.ends
                assert record.value is None

    def check_tombstones(self, batches: list[Batch], found: Mapping[int, Read], reached: int) -> None:
        """They stay until the retention time has passed since a cleaning first kept them, and no longer."""
        latest = {r.key: r for o, r in sorted(self.written.items()) if o < reached and not self.is_aborted(o)}
        old = {record.offset for batch in batches if batch.magic < 2 for record in batch.records}
        for record in latest.values():
            if record.value is not None or record.key is None:
                continue
            if record.offset in found:
                since = self.kept_since.setdefault(record.offset, self.now)
                assert record.offset in old or self.now < since + RETENTION
            elif self.was_batch(record.offset):
                assert self.now >= self.kept_since[record.offset] + RETENTION

    def was_batch(self, offset: int) -> bool:
        """True if the record was written in a v2 batch."""
        return any(b.base_offset <= offset <= b.last_offset for b in self.batches.values() if b.magic == 2)

    def check_transactions(self, found: Mapping[int, Read]) -> None:
        """The indexes have all that a reader of committed records must leave out."""
        known = self.files.indexed_aborted()
        for offset in found:
            if self.is_aborted(offset):
                producer, first = self.owner[offset]
                assert any((each.producer_id, each.first_offset) == (producer, first) for each in known)
        for each in known:
            assert (each.producer_id, each.first_offset) in self.aborted

    def check_indexes(self, base: int) -> None:
        """Each entry of an index points to its batch."""
        if not self.files.path(base, ".index").exists():
            return
        batches = {batch.position: batch for batch in self.files.segment(base)}
        last = -1
        for relative, position in struct.iter_unpack(">II", self.files.path(base, ".index").read_bytes()):
            assert position > last
            assert batches[position].last_offset == base + relative
            last = position
        newest = {batch.last_offset: batch.max_timestamp for batch in batches.values()}
        times = list(struct.iter_unpack(">qI", self.files.path(base, ".timeindex").read_bytes()))
        assert times == sorted(set(times))
        assert all(newest[base + relative] == timestamp for timestamp, relative in times)
        largest = max(newest.values())
        assert largest < 0 or times[-1][0] == largest


@settings(max_examples=examples(120), deadline=None, suppress_health_check=list(HealthCheck))
@given(STEPS)
def test_readers_get_the_last_value(steps: list[Data | End | Roll | Clean]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        model = Model(Files(Path(directory)))
        for step in steps:
            model.run(step)
        model.files.roll()
        model.clean(Clean(1, 1 << 20, 1))
        model.clean(Clean(1, 1 << 20, 1 << 20))
