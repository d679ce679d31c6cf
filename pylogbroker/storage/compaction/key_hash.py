"""Hashes of keys, 128 bits, many at once.

A hash is two sums modulo 2^64 over a key's 32-bit words and its length, each times a random factor of the run:
multilinear hashing. It is universal, so nobody can choose keys that collide. The probability of a collision is about
2^-128; at worst 2^-66, if keys differ only in the highest bit of a word. Keys above 1 KiB are hashed by BLAKE2b, 128
bits, with a random key.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import Final

import attrs
import numpy as np
import numpy.typing as npt

from pylogbroker.records.columnar.varints import Words
from pylogbroker.storage.compaction.blocks import PADDING
from pylogbroker.storage.compaction.record_columns import Keys, words

_MULTILINEAR_BYTES_MAX: Final = 1024
_LOW: Final = np.uint64(0xFFFFFFFF)
_HIGH: Final = np.uint64(32)
_MASKS: Final = np.array([(1 << 8 * size) - 1 for size in range(9)], np.uint64)


@attrs.frozen(eq=False, repr=False)
class KeyHash:
    _factors: Words  # two rows
    _secret: bytes

    @classmethod
    def random(cls) -> KeyHash:
        count = _MULTILINEAR_BYTES_MAX // 4 + 2
        drawn = np.frombuffer(secrets.token_bytes(16 * count), np.uint64).reshape(2, count)
        return cls(drawn | np.uint64(1), secrets.token_bytes(32))

    def __call__(self, keys: Keys) -> tuple[Words, Words]:
        """Return both halves; the first is never 0."""
        first, second = (keys.length.view(np.uint64) * row[-1] + row[-2] for row in self._factors)
        window = words(keys.data)
        chosen: npt.NDArray[np.intp] | slice = slice(None)
        longest = min(int(keys.length.max(initial=0)), _MULTILINEAR_BYTES_MAX)
        shortest = int(keys.length.min(initial=longest))
        for at in range(0, longest, 8):
            if at >= shortest:
                chosen = np.flatnonzero(keys.length > at)
            word = window[keys.start[chosen] + at]
            if at + 8 > shortest:
                word &= _MASKS[np.minimum(keys.length[chosen] - at, 8)]
            low, high = word & _LOW, word >> _HIGH
            for half, row in zip((first, second), self._factors, strict=True):
                half[chosen] += low * row[at // 4] + high * row[at // 4 + 1]
        self._hash_long(keys, first, second)
        first[first == 0] = 1
        return first, second

    def _hash_long(self, keys: Keys, first: Words, second: Words) -> None:
        raw = keys.data.data
        for index in np.flatnonzero(keys.length > _MULTILINEAR_BYTES_MAX).tolist():
            start = int(keys.start[index])
            key = raw[start : start + int(keys.length[index])]
            digest = hashlib.blake2b(key, digest_size=16, key=self._secret).digest()
            first[index], second[index] = np.frombuffer(digest, np.uint64)


def keys_of(keys: list[bytes | None]) -> Keys:
    lengths = np.array([-1 if key is None else len(key) for key in keys], np.int64)
    sizes = np.maximum(lengths, 0)
    joined = b"".join(key for key in keys if key) + bytes(PADDING)
    return Keys(np.frombuffer(joined, np.uint8), np.cumsum(sizes) - sizes, lengths)
