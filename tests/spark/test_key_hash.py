"""Hashes of many keys, against those that kafka-python computes for one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2

from pylogbroker.spark.writing.key_hash import hashes, partitions_of_keys

KEYS = st.lists(st.one_of(st.binary(max_size=20), st.binary(min_size=250, max_size=270)), max_size=40)


@given(KEYS)
def test_hashes_match_single_keys(keys: list[bytes]) -> None:
    assert hashes(*_laid_out(keys)).tolist() == [murmur2(key) & 0xFFFFFFFF for key in keys]


@given(KEYS, st.integers(1, 70_000))
def test_partitions_match_single_keys(keys: list[bytes], partitions: int) -> None:
    expected = [(murmur2(key) & 0x7FFFFFFF) % partitions for key in keys]
    assert partitions_of_keys(*_laid_out(keys), partitions).tolist() == expected


def test_hashes_of_adjacent_short_keys_at_the_end_of_the_data() -> None:
    keys = [b"abcdefg", b"", b"x", b"wxyz"]
    assert hashes(*_laid_out(keys)).tolist() == [murmur2(key) & 0xFFFFFFFF for key in keys]


def _laid_out(keys: list[bytes]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    lengths = np.array([len(key) for key in keys], np.int64)
    starts = np.cumsum(lengths) - lengths
    return np.frombuffer(b"".join(keys), np.uint8), starts, lengths
