"""Records that a consumer has received, compared with those in the topic, and the time they took."""

import time
from collections.abc import Sequence

import attrs

from benchmarks.clients import WAIT_SECONDS_MAX, Work
from benchmarks.errors import BenchmarkError
from benchmarks.session import expect


@attrs.define
class Tally:
    """Counts records and bytes. The time runs from the first lot on, whose records do not count for the rate."""

    work: Work
    records: int = 0
    size: int = 0
    first_lot: int = 0
    begin: float = 0.0
    end: float = 0.0
    deadline: float = attrs.field(factory=lambda: time.perf_counter() + WAIT_SECONDS_MAX)

    def add(self, sizes: Sequence[int]) -> bool:
        """Count a lot of values, by their sizes; whether they were the last ones."""
        if sizes:
            now = time.perf_counter()
            if not self.records:
                self.begin, self.first_lot = now, len(sizes)
            self.records += len(sizes)
            self.size += sum(sizes)
            self.end = now
        elif time.perf_counter() > self.deadline:
            raise BenchmarkError(f"only {self.records} of {self.work.count} records have come")
        return self.records >= self.work.count

    def rate(self) -> float:
        """Records per second. It fails unless all came, and nothing else."""
        records = self.work.count
        expect((self.records, self.size), (records, records * self.work.value_bytes), "records and bytes read")
        if self.end == self.begin:
            raise BenchmarkError(f"{records} records came at once: too few to be timed")
        return (records - self.first_lot) / (self.end - self.begin)
