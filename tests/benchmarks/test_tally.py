"""Counting and timing of what a consumer reads."""

import pytest

from benchmarks.clients import Work
from benchmarks.clients.tally import Tally
from benchmarks.errors import BenchmarkError


def test_the_time_of_a_consumer_runs_from_its_first_lot(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("benchmarks.clients.tally.time.perf_counter", lambda: now)
    tally = Tally(Work("", "", count=1000, value_bytes=5))
    now = 110.0
    assert not tally.add([])
    assert not tally.add([5] * 200)
    now = 114.0
    assert not tally.add([5] * 400)
    now = 118.0
    assert tally.add([5] * 400)
    assert tally.rate() == 100


@pytest.mark.parametrize("sizes", [[5], [5, 4], [5, 5, 5]])
def test_a_consumer_that_gets_other_records_fails(sizes: list[int]) -> None:
    tally = Tally(Work("", "", count=2, value_bytes=5))
    for each in sizes:
        tally.add([each])
    with pytest.raises(BenchmarkError, match="records and bytes read"):
        tally.rate()


def test_a_consumer_that_gets_nothing_fails() -> None:
    tally = Tally(Work("", "", count=2, value_bytes=5), deadline=0.0)
    with pytest.raises(BenchmarkError, match="only 0 of 2"):
        tally.add([])
