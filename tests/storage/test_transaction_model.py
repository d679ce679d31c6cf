"""Committed records as readers see them, against a naive list of what was written, through all events of a log.

The reader here does what clients do: it fetches, takes the aborted transactions that come with the entries, and passes
over the batches of their producers until the abort marker.  Entries are read by kafka-python.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from kafka.record import MemoryRecords

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.storage import LogConfig, Origin
from tests.storage.support import NOW, batch, expired, marker, open_log
from tests.support.examples import examples

PRODUCERS = st.integers(1, 4)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["transactional"] * 5 + ["commit", "abort", "abort", "plain", "alone"]),
        PRODUCERS,
        st.integers(1, 3),
    ),
    min_size=1,
    max_size=8,
)


@attrs.frozen
class Written:
    """A batch of the model."""

    base: int
    values: tuple[bytes, ...] = ()  # none: a marker
    producer_id: int = -1
    epoch: int = -1
    sequence: int = -1
    transactional: bool = False
    committed: bool = False

    @property
    def end(self) -> int:
        return self.base + max(len(self.values), 1)


class Model:
    """The list, and what follows from it."""

    def __init__(self) -> None:
        self.written: list[Written] = []
        self.start = self.high_watermark = self.end = 0

    def add(self, **fields: Any) -> None:
        self.written.append(Written(self.end, **fields))
        self.end = self.written[-1].end

    def of(self, producer_id: int) -> list[Written]:
        return [each for each in self.written if each.producer_id == producer_id]

    def is_open(self, producer_id: int) -> bool:
        """True if what the producer wrote in transactions last has no marker yet."""
        last = [each for each in self.of(producer_id) if each.transactional or not each.values][-1:]
        return bool(last and last[0].values)

    def next_sequence(self, producer_id: int, epoch: int) -> int:
        """The number that its next batch in that epoch has to begin with."""
        known = [each for each in self.of(producer_id) if each.values and each.epoch == epoch]
        return known[-1].sequence + len(known[-1].values) if known else 0

    def epoch(self, producer_id: int) -> int:
        return max((each.epoch for each in self.of(producer_id)), default=0)

    def end_of(self, data: Written) -> Written | None:
        """The marker that decided a batch."""
        later = [each for each in self.of(data.producer_id) if each.base > data.base and not each.values]
        return later[0] if later else None

    def stable(self) -> int:
        """Return the offset up to which all is decided, as far as readers may know."""
        for each in self.written:
            if each.transactional:
                end = self.end_of(each)
                if end is None or end.base >= self.high_watermark:
                    return max(min(each.base, self.high_watermark), self.start)
        return self.high_watermark

    def visible(self, offset: int) -> list[bytes]:
        """The values that a reader of committed records gets from `offset` on."""
        found = []
        for each in self.written:
            if each.end <= self.stable() and (not each.transactional or self._is_committed(each)):
                found += [value for at, value in enumerate(each.values, each.base) if at >= offset]
        return found

    def _is_committed(self, data: Written) -> bool:
        end = self.end_of(data)
        return end is not None and end.committed

    def aborted(self, first: int, upto: int) -> set[tuple[int, int, int]]:
        """The aborted transactions that reach into a range: producer, first offset, that of the marker."""
        found: dict[tuple[int, int], int] = {}
        for each in self.written:
            end = self.end_of(each) if each.transactional else None
            if end is not None and not end.committed:
                found.setdefault((each.producer_id, end.base), each.base)
        return {(who, begin, last) for (who, last), begin in found.items() if last >= first and begin < upto}

    def cut(self, offset: int) -> None:
        self.written = [each for each in self.written if each.end <= offset]
        self.end = offset
        self.high_watermark = min(self.high_watermark, offset)


class TransactionMachine(RuleBasedStateMachine):
    """Several producers with their transactions; rolls, cuts, retention, restarts and lost index files."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.mkdtemp()
        self.model = Model()
        self.count = 0
        self.is_lagging = False

    @initialize(segment_bytes=st.sampled_from([400, 1000, 100_000]))
    def open(self, segment_bytes: int) -> None:
        self.config = LogConfig(segment_bytes=segment_bytes, index_interval_bytes=200)
        self.log = open_log(Path(self.directory) / "events_0", self.config)

    def teardown(self) -> None:
        shutil.rmtree(self.directory)

    def _values(self, count: int) -> tuple[bytes, ...]:
        self.count += count
        return tuple(b"%d" % number for number in range(self.count - count, self.count))

    @rule(steps=STEPS)
    def go_on(self, steps: list[tuple[str, int, int]]) -> None:
        """Producers write, and their transactions end."""
        for what, producer_id, count in steps:
            match what:
                case "commit" | "abort":
                    self._end(producer_id, what == "commit", newer=count == 3)
                case "alone":
                    self._write_without_id(count)
                case _:
                    self._write(producer_id, count, what == "transactional")
            if not self.is_lagging:
                self._replicated(0)

    def _write(self, producer_id: int, count: int, transactional: bool) -> None:
        epoch = self.model.epoch(producer_id)
        sequence = self.model.next_sequence(producer_id, epoch)
        values = self._values(count)
        data = batch(values, producer=(producer_id, epoch, sequence), transactional=transactional)
        if self.model.is_open(producer_id) and not transactional:
            self._rejected(ErrorCode.INVALID_TXN_STATE, data, Origin.CLIENT)
            return
        self.log.append(data, NOW)
        self.model.add(
            values=values, producer_id=producer_id, epoch=epoch, sequence=sequence, transactional=transactional
        )

    def _write_without_id(self, count: int) -> None:
        values = self._values(count)
        self.log.append(batch(values), NOW)
        self.model.add(values=values)

    def _end(self, producer_id: int, committed: bool, newer: bool) -> None:
        epoch = self.model.epoch(producer_id) + newer
        self.log.append(marker(committed, producer_id, epoch), NOW, origin=Origin.COORDINATOR)
        self.model.add(producer_id=producer_id, epoch=epoch, committed=committed)

    @rule(producer_id=PRODUCERS)
    def fenced(self, producer_id: int) -> None:
        epoch = self.model.epoch(producer_id) - 1
        if epoch >= 0:
            code = ErrorCode.INVALID_PRODUCER_EPOCH
            self._rejected(code, marker(True, producer_id, epoch), Origin.COORDINATOR)
            stale = batch([b"stale"], producer=(producer_id, epoch, 1000), transactional=True)
            self._rejected(code, stale, Origin.CLIENT)

    def _rejected(self, code: ErrorCode, data: bytes, origin: Origin) -> None:
        with pytest.raises(KafkaError) as caught:
            self.log.append(data, NOW, origin=origin)
        assert caught.value.code is code

    @rule(lag=st.integers(0, 4))
    def lag_behind(self, lag: int) -> None:
        """The high watermark stays, up to `lag` batches behind the end, or follows it from now on."""
        self._replicated(lag)
        self.is_lagging = lag > 0

    def _replicated(self, lag: int) -> None:
        kept = self.model.written[: len(self.model.written) - lag]
        reached = max([self.model.high_watermark, *(each.end for each in kept)])
        self.log.high_watermark = self.model.high_watermark = min(reached, self.model.end)

    @rule()
    def roll(self) -> None:
        self.log.roll(NOW)

    @rule()
    def sync(self) -> None:
        self.log.sync()

    @rule(part=st.integers(0, 8))
    def delete_records(self, part: int) -> None:
        offset = self.model.start + (self.model.high_watermark - self.model.start) * part // 8
        self.model.start = self.log.delete_records_before(offset)
        for files in expired(self.log, NOW):
            files.unlink()

    @rule(part=st.integers(4, 8))
    def truncate(self, part: int) -> None:
        keep = len(self.model.written) * part // 8
        end = self.model.written[keep].base if keep < len(self.model.written) else self.model.end
        if end > self.model.start:
            for files in self.log.truncate_to(end, self.log.plan_truncation(end)):
                files.unlink()
            self.model.cut(end)

    @rule(lost=st.sets(st.integers(0, 20)), is_clean=st.booleans())
    def restart(self, lost: set[int], is_clean: bool) -> None:
        if is_clean:
            self.log.close()
        for number, name in enumerate(sorted(Path(self.log.path).glob("*.txnindex"))):
            if number in lost:
                os.unlink(name)
        self.log = open_log(
            self.log.path,
            self.config,
            clean=is_clean,
            recovery_point=self.log.recovery_point,
            log_start=self.model.start,
        )
        self.log.high_watermark = self.model.high_watermark = self.model.end

    @invariant()
    def what_readers_see(self) -> None:
        if hasattr(self, "log"):
            assert self.log.log_end_offset == self.model.end
            assert self.log.last_stable_offset == self.model.stable()
            assert self._read(self.model.start, 250) == self.model.visible(self.model.start)

    @rule(parts=st.lists(st.integers(0, 10), max_size=4), max_bytes=st.sampled_from([1, 300, 1000, 1 << 20]))
    def read(self, parts: list[int], max_bytes: int) -> None:
        for part in [0, *parts]:
            offset = self.model.start + (self.model.stable() - self.model.start) * part // 10
            assert self._read(offset, max_bytes) == self.model.visible(offset)

    def _read(self, offset: int, max_bytes: int) -> list[bytes]:
        found: list[bytes] = []
        position = offset
        while (region := self.log.read(position, max_bytes, upto=self.model.stable())) is not None:
            reported = self.log.aborted_transactions(position, region.next_offset)
            assert sorted(each[:3] for each in reported) == sorted(self.model.aborted(position, region.next_offset))
            position = self._take(region.read(), position, [(each[1], each[0]) for each in reported], found)
        return found

    def _take(self, data: bytes, offset: int, aborted: list[tuple[int, int]], found: list[bytes]) -> int:
        """One fetch's batches, as a client takes them; says where it goes on."""
        waiting, passed_over = sorted(aborted), set()
        reader = MemoryRecords(data)
        while (each := reader.next_batch()) is not None:
            while waiting and waiting[0][0] <= each.last_offset:
                passed_over.add(waiting.pop(0)[1])
            if each.is_control_batch:
                if next(iter(each)).abort:
                    passed_over.discard(each.producer_id)
            elif not (each.is_transactional and each.producer_id in passed_over):
                found += [bytes(record.value) for record in each if record.offset >= offset]
            last = each.last_offset
        return int(last) + 1


TestTransactions = TransactionMachine.TestCase
TestTransactions.settings = settings(max_examples=examples(150), stateful_step_count=30, deadline=None)
