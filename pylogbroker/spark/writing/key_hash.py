"""Partitions of many keys at once, by MurmurHash2 as in Java's producer.

keys, longest first           | w w w w |        step k mixes the k-th word into the hashes
                              | w w w b |        of all keys that have one: always the
                              | w w b b |        first ones in this order
                              | w b     |        the last step mixes the 1 to 3 remaining bytes
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pylogbroker.partition_hash import murmur2

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint32]

_SEED: Final = np.uint32(0x9747B28C)
_M: Final = np.uint32(0x5BD1E995)
_LONG_KEY_BYTES: Final = 256  # longer keys are hashed alone


def partitions_of_keys(data: Bytes, starts: Numbers, lengths: Numbers, partitions: int) -> npt.NDArray[np.int32]:
    """Return each key's partition; a key is `lengths` bytes of `data` from `starts` on."""
    positive = (hashes(data, starts, lengths) & np.uint32(0x7FFFFFFF)).astype(np.int32)
    numbers: npt.NDArray[np.int32] = positive % np.int32(partitions)
    return numbers


def hashes(data: Bytes, starts: Numbers, lengths: Numbers) -> Hashes:
    result = np.empty(len(starts), np.uint32)
    is_long = lengths > _LONG_KEY_BYTES
    if not is_long.any():
        return _together(data, starts, lengths)
    for index in np.flatnonzero(is_long).tolist():
        start = int(starts[index])
        result[index] = murmur2(data[start : start + int(lengths[index])].tobytes())
    result[~is_long] = _together(data, starts[~is_long], lengths[~is_long])
    return result


def _together(data: Bytes, starts: Numbers, lengths: Numbers) -> Hashes:
    if not len(starts):
        return np.empty(0, np.uint32)
    most, least = int(lengths.max()), int(lengths.min())
    if most == least:
        return _ordered(data, starts, lengths)
    order = np.argsort((_LONG_KEY_BYTES - lengths).astype(np.int16), kind="stable")
    result = np.empty(len(starts), np.uint32)
    result[order] = _ordered(data, starts[order], lengths[order])
    return result


def _ordered(data: Bytes, starts: Numbers, lengths: Numbers) -> Hashes:
    """Hash keys sorted by decreasing length."""
    result = _SEED ^ lengths.astype(np.uint32)
    words = lengths >> 2
    having = np.searchsorted(-words, -np.arange(int(words[0])), side="left")
    for word, count in enumerate(having.tolist()):
        some = result[:count]
        mixed = _word(data, starts[:count] + 4 * word) * _M
        mixed ^= mixed >> np.uint32(24)
        mixed *= _M
        some *= _M
        some ^= mixed
    _mix_left(result, data, starts + 4 * words, lengths & 3)
    result ^= result >> np.uint32(13)
    result *= _M
    result ^= result >> np.uint32(15)
    return result


def _word(data: Bytes, at: Numbers) -> Hashes:
    every: Any = np.ndarray((len(data) - 3,), "<u4", data, strides=(1,))
    word: Hashes = every[at].astype(np.uint32, copy=False)
    return word


def _mix_left(result: Hashes, data: Bytes, at: Numbers, left: Numbers) -> None:
    if not left.any():
        return
    rest = np.zeros(len(result), np.uint32)
    for byte in range(3):
        some = np.flatnonzero(left > byte)
        rest[some] |= data[at[some] + byte].astype(np.uint32) << np.uint32(8 * byte)
    some = np.flatnonzero(left)
    result[some] = (result[some] ^ rest[some]) * _M
