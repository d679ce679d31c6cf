"""Many records are found by parallel searches; bytes that merely look like records are not taken for them."""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

from pylogbroker.errors import CorruptRecords
from pylogbroker.records import Record, build
from pylogbroker.records.columnar import decode
from pylogbroker.records.columnar.parallel_search import find_in_parallel
from tests.records.test_columns_decode import by_columns, one_by_one
from tests.records.test_log_entries import sealed

starts_module = importlib.import_module("pylogbroker.records.columnar.record_starts")
Value = Callable[[random.Random], bytes]

VALUES: dict[str, Value] = {
    "short": lambda source: source.randbytes(source.randrange(1, 60)),
    "around two bytes": lambda source: source.randbytes(source.randrange(40, 80)),
    "a hundred": lambda source: source.randbytes(source.randrange(50, 150)),
    "text": lambda source: b"GET /index.html HTTP/1.1 " * source.randrange(1, 9),
    "a few long ones": lambda source: source.randbytes(source.choice([60] * 99 + [9000])),
}


def records(count: int, value: Value, headers: int = 0) -> list[Record]:
    source = random.Random(11)
    each = (("a", b"\xff" * 9),) * headers
    return [
        Record(offset, 1000 + source.randrange(99), b"k%d" % offset, value(source), each) for offset in range(count)
    ]


def log(found: list[Record], batch: int) -> bytes:
    return b"".join(build(found[first : first + batch], base_offset=first) for first in range(0, len(found), batch))


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("batch", [15, 500, 5000])
def test_parallel_searches_are_enough(name: str, batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(starts_module, "_sequential_starts")
    found = records(5000, VALUES[name])
    assert by_columns(log(found, batch)) == (found, None)


def test_many_records_in_each_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(starts_module, "_sequential_starts")
    found = records(80_000, VALUES["short"])
    assert by_columns(build(found)) == (found, None)


UNLIKELY: dict[str, Value] = {
    "long": lambda source: source.randbytes(source.randrange(7000, 10_000)),
    "mixed": lambda source: source.randbytes(source.choice([3, 30, 300, 3000])),
    "zeros": lambda source: bytes(source.randrange(200)),
    "wide text": lambda source: ("wide" * source.randrange(20)).encode("utf-16-be"),
    "batches in records": lambda source: build(
        [Record(0, 5, None, source.randbytes(source.randrange(60)))] * source.randrange(1, 40)
    ),
}


@pytest.mark.parametrize("name", UNLIKELY)
@pytest.mark.parametrize("batch", [15, 500, 5000])
def test_bytes_that_look_like_records_are_not_mistaken(name: str, batch: int) -> None:
    found = records(5000, UNLIKELY[name])
    assert by_columns(log(found, batch)) == (found, None)


@pytest.mark.parametrize("batch", [15, 5000])
def test_records_with_headers(batch: int) -> None:
    for headers in (1, 3):
        found = records(5000, VALUES["a hundred"], headers)
        assert by_columns(log(found, batch)) == (found, None)


def test_a_long_batch_among_short_ones() -> None:
    """The records have headers, so that nobody guesses where its records begin."""
    found = records(9000, VALUES["short"], headers=1)
    ends = [0, *range(1, 301), *range(8800, 9001)]
    data = b"".join(build(found[first:end], base_offset=first) for first, end in pairwise(ends))
    assert by_columns(data) == (found, None)


def test_a_wrong_guess_is_found_out() -> None:
    """A value is made of what look like records, of which the last one ends where nothing begins."""
    inner = build([Record(0, 5, None, b"x" * 50)] * 400)[61:]
    values = [inner if each % 10 else b"y" * 70 for each in range(300)]
    found = [Record(offset, 5, None, value) for offset, value in enumerate(values)]
    payload = build(found)[61:]
    ends = np.array([len(payload)])
    assert find_in_parallel(np.frombuffer(payload, np.uint8), np.zeros(1, np.int64), ends, np.array([300])) is None
    assert by_columns(build(found)) == (found, None)


@pytest.mark.parametrize("shift", [-1, 1, 100])
def test_counts_that_are_wrong(shift: int) -> None:
    payload = build(records(5000, VALUES["a hundred"]))[61:]
    data = sealed(payload, count=5000 + shift)
    assert by_columns(data) == one_by_one(data)
    with pytest.raises(CorruptRecords):
        list(decode(data))
