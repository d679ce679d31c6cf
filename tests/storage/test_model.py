"""A log against a list of batches, through whatever may happen to it."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pylogbroker.errors import OffsetOutOfRange
from pylogbroker.plugins.delete_policies import RecordTimePolicy
from pylogbroker.storage import GuardedPolicy, LogConfig, Origin
from tests.storage.support import NOW, batch, bytes_on_disk, expired, open_log, records_in
from tests.support.examples import examples


@attrs.frozen
class Stored:
    """A batch of the model."""

    base: int
    values: tuple[bytes, ...]
    size: int

    @property
    def end(self) -> int:
        return self.base + len(self.values)


batches_of_values = st.lists(st.binary(max_size=30), min_size=1, max_size=5)


class LogMachine(RuleBasedStateMachine):
    """Appends, rolls, reads, deletes, cuts, and restarts both clean and not."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.mkdtemp()
        self.batches: list[Stored] = []
        self.start = 0
        self.end = 0
        self.now = NOW
        self.retention = GuardedPolicy(RecordTimePolicy(50), lambda *wrong: self.wrong.append(wrong))
        self.wrong: list[object] = []

    @initialize(
        segment_bytes=st.sampled_from([300, 1000, 100_000]),
        interval=st.sampled_from([0, 100, 4096]),
        preallocate=st.booleans(),
    )
    def open(self, segment_bytes: int, interval: int, preallocate: bool) -> None:
        self.config = LogConfig(segment_bytes=segment_bytes, index_interval_bytes=interval, preallocate=preallocate)
        self.log = open_log(Path(self.directory) / "events_0", self.config)

    def teardown(self) -> None:
        shutil.rmtree(self.directory)

    @rule(values=batches_of_values, times=st.integers(1, 8), later=st.integers(0, 3))
    def append(self, values: list[bytes], times: int, later: int) -> None:
        for _ in range(times):
            self.now += later
            data = batch(values, [self.now] * len(values))
            appended = self.log.append(data, self.now)
            assert (appended.base_offset, appended.last_offset) == (self.end, self.end + len(values) - 1)
            self._add(self.end, values, len(data))

    @rule(values=batches_of_values, gap=st.integers(0, 9))
    def append_as_follower(self, values: list[bytes], gap: int) -> None:
        data = (self.end + gap).to_bytes(8) + batch(values, [self.now] * len(values))[8:]
        self.log.append(data, self.now, origin=Origin.REPLICATION)
        self._add(self.end + gap, values, len(data))

    def _add(self, base: int, values: list[bytes], size: int) -> None:
        self.batches.append(Stored(base, tuple(values), size))
        self.end = base + len(values)
        self.log.high_watermark = self.end

    @rule(places=st.lists(st.integers(0, 100), max_size=5), max_bytes=st.integers(1, 900), less=st.integers(0, 5))
    def read(self, places: list[int], max_bytes: int, less: int) -> None:
        for place in places:
            offset = self.start + (self.end - self.start) * place // 100
            self._read(offset, max_bytes, self._bound(self.end - less), min_one=place % 2 == 0)

    @rule(max_bytes=st.integers(1, 5000))
    def read_on(self, max_bytes: int) -> None:
        offset = self.start
        while found := self._read(offset, max_bytes, self.end, min_one=True):
            offset = found[-1][0] + 1
        assert offset >= max((each.end for each in self.batches), default=0)

    def _read(self, offset: int, max_bytes: int, upto: int, min_one: bool) -> list[tuple[int, bytes]]:
        region = self.log.read(offset, max_bytes, upto=upto, min_one=min_one)
        wanted: list[tuple[int, bytes]] = []
        size = 0
        for each in self.batches:
            if each.end > offset and each.end <= upto:
                size += each.size
                if size > max_bytes and (wanted or not min_one):
                    break
                wanted += enumerate(each.values, each.base)
        found = records_in(region.read()) if region else []
        # A region does not cross segments: what is found is a beginning of what is wanted, and not an empty one.
        assert found == wanted[: len(found)]
        assert bool(found) == bool(wanted)
        return found

    def _bound(self, upto: int) -> int:
        """A high watermark lies between batches."""
        return max((each.end for each in self.batches if each.end <= upto), default=0)

    @rule()
    def roll(self) -> None:
        self.log.roll(self.now)

    @rule()
    def sync(self) -> None:
        assert self.log.sync() == self.end

    @rule(part=st.integers(0, 3))
    def delete_records(self, part: int) -> None:
        self.start += (self.end - self.start) * part // 8
        assert self.log.delete_records_before(self.start) == self.start

    @rule(later=st.integers(0, 30))
    def expire(self, later: int) -> None:
        self.now += later
        for files in expired(self.log, self.now, [self.retention]):
            files.unlink()
        assert self.wrong == []
        assert self.log.log_start_offset >= self.start
        self.start = self.log.log_start_offset
        self.batches = [each for each in self.batches if each.end > self.log.segments[0].base_offset]

    @precondition(lambda self: self.batches)
    @rule(part=st.integers(4, 8), gap=st.integers(0, 9))
    def truncate(self, part: int, gap: int) -> None:
        """Cut at the begin of a batch, or in the gap before it; the first one may begin before the log's start."""
        keep = len(self.batches) * part // 8
        begin = self.batches[keep].base if keep < len(self.batches) else self.end
        end = max(begin - gap, self.batches[keep - 1].end if keep else self.start)
        if not self.start <= end <= begin:
            return
        for files in self.log.truncate_to(end):
            files.unlink()
        self.batches, self.end = self.batches[:keep], end
        assert self.log.log_end_offset == end

    @rule()
    def restart(self) -> None:
        self.log.close()
        self._reopen(clean=True)

    @rule()
    def crash(self) -> None:
        self._reopen(clean=False)

    def _reopen(self, **saved: Any) -> None:
        # A gap behind the last entry is not written down.
        written = max([self.log.segments[-1].base_offset, *(each.end for each in self.batches)])
        self.log = open_log(
            self.log.path,
            self.config,
            recovery_point=self.log.recovery_point,
            log_start=self.start,
            high_watermark=self.log.high_watermark,
            **saved,
        )
        if written < self.start:  # a log that ends before it begins is restarted
            self.batches = []
        self.end = max(written, self.start)
        self.log.high_watermark = self.end

    @invariant()
    def offsets_agree(self) -> None:
        if hasattr(self, "log"):
            assert (self.log.log_start_offset, self.log.log_end_offset) == (self.start, self.end)
            assert self.log.recovery_point <= self.end
            with pytest.raises(OffsetOutOfRange):
                self.log.read(self.end + 1, 1, upto=self.end)

    @invariant()
    def the_bytes_are_all_there(self) -> None:
        if hasattr(self, "log") and not self.config.preallocate:
            wanted = [pair for each in self.batches for pair in enumerate(each.values, each.base)]
            assert records_in(bytes_on_disk(self.log.path)) == wanted


TestLog = LogMachine.TestCase
TestLog.settings = settings(max_examples=examples(100), stateful_step_count=40, deadline=None)
