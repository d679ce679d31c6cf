"""Benchmark of decoders, at a tiny size."""

import pytest
from click.testing import CliRunner

from benchmarks import decoding, machine
from benchmarks.errors import BenchmarkError


@pytest.fixture(autouse=True)
def leave_memory_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "TOUCHED_BYTES", 1 << 20)


def test_decoders_are_measured_side_by_side() -> None:
    options = ["--rounds", "1", "--warm-up", "0", "--scale", "0.02", "--markdown"]
    done = CliRunner().invoke(decoding.main, options, catch_exceptions=False)
    rows = [line.strip("| ").split(" | ") for line in done.output.splitlines() if line.startswith("|")]
    assert rows[0][:6] == ["records", "unit", *decoding.DECODERS]
    assert [row[0] for row in rows[2:]] == [work.title for work in decoding.WORK]
    for row in rows[2:]:
        own, *others = (float(cell.replace(",", "")) for cell in row[2:6])
        assert min(own, *others) > 0
        assert float(row[6].removesuffix(" x")) == pytest.approx(own / max(others), abs=0.1)


def test_decoders_that_find_other_records_are_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    fetch = decoding.WORK[0].fetches(0.1)[0]
    decoding.agree(fetch)
    other = decoding.WORK[1].fetches(0.1)[0]
    monkeypatch.setitem(decoding.DECODERS, "one by one", lambda _: decoding.one_by_one(other))
    with pytest.raises(BenchmarkError, match="one by one"):
        decoding.agree(fetch)
