"""Spans of a buffer as an Arrow array: the same bytes as slices of it, whatever their lengths."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylogbroker.table.spans import binary_of

#: gap before it, and length; -1 is null
SHORT = st.tuples(st.integers(0, 9), st.integers(-1, 13))
LONG = st.tuples(st.integers(0, 9), st.sampled_from([-1, 0, 13, 14, 40, 300]))


@given(st.one_of(st.lists(SHORT), st.lists(LONG), st.lists(st.one_of(SHORT, LONG))), st.integers(0, 20))
def test_spans(parts: list[tuple[int, int]], behind: int) -> None:
    lengths = [length for _, length in parts]
    starts = list(itertools.accumulate((gap for gap, _ in parts), initial=0))[1:]
    before = itertools.accumulate((max(length, 0) for length in lengths), initial=0)
    starts = [start + moved for start, moved in zip(starts, before, strict=False)]
    size = max((start + max(length, 0) for start, length in zip(starts, lengths, strict=True)), default=0) + behind
    raw = np.random.default_rng(1).bytes(size)
    found = binary_of(raw, np.array(starts, np.int64), np.array(lengths, np.int64))
    found.validate(full=True)
    assert found.type == pa.binary()
    assert found.to_pylist() == [
        None if length < 0 else raw[start : start + length] for start, length in zip(starts, lengths, strict=True)
    ]


@pytest.mark.parametrize("length", [5, 50])
def test_spans_do_not_come_from_the_default_pool(length: int) -> None:
    before = pa.total_allocated_bytes()
    array = binary_of(bytes(100_000), np.arange(0, 100_000, 100), np.full(1000, length))
    assert len(array) == 1000
    assert pa.total_allocated_bytes() - before < 1000 * length


@pytest.mark.parametrize("length", [5, 50])
def test_spans_are_copied_from_the_buffer(length: int) -> None:
    raw = bytearray(b"a" * 1000)
    found = binary_of(raw, np.arange(0, 900, 100), np.full(9, length))
    raw[:] = b"b" * 1000
    assert found.to_pylist() == [b"a" * length] * 9
