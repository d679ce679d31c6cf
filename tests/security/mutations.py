"""Random changes of messages that are valid, for tests of parsers."""

from __future__ import annotations

from random import Random

EXTREMES = (
    b"\0",
    b"\xff",
    b"\x7f\xff\xff\xff",
    b"\x80\0\0\0",
    b"\xff\xff\xff\xff",
    b",",
    b"=",
    b"\1",
    b"n,,",
    b"\xc3\x28",
)
CHANGES_MAX = 3
LONG_BYTES = 100_000
LONG_CHANCE = 0.002


def changed(random: Random, data: bytes) -> bytes:
    """Return the bytes with up to `CHANGES_MAX` changes; rarely, a part is repeated first."""
    if random.random() < LONG_CHANCE:
        data = repeated(random, data)
    for _ in range(random.randint(0, CHANGES_MAX)):
        start = random.randrange(len(data) + 1)
        end = min(len(data), start + random.choice((0, 1, 1, 2, 4, 20)))
        match random.randrange(5):
            case 0:
                data = data[:start] + data[end:]
            case 1:
                data = data[:start] + random.choice(EXTREMES) + data[end:]
            case 2:
                data = data[:start] + random.randbytes(end - start) + data[end:]
            case 3:
                data = data[:end] + data[start:]
            case _:
                data = data[:start]
    return data


def repeated(random: Random, data: bytes) -> bytes:
    """Return the bytes with a part so often that they are long, as the worst case of a parser has them."""
    start = random.randrange(len(data) + 1)
    end = min(len(data), start + random.choice((1, 4, 14, 20)))
    return data[:start] + data[start:end] * (LONG_BYTES // max(1, end - start)) + data[end:]


def pieces(random: Random, data: bytes) -> list[bytes]:
    """Cut bytes at random places, as a network may; no piece is empty."""
    cuts = sorted(random.randrange(len(data) + 1) for _ in range(random.choice((0, 0, 1, 3))))
    found = [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    return [piece for piece in found if piece]
