"""Records for hypothesis to choose from."""

from __future__ import annotations

import random
from collections.abc import Callable

from hypothesis import strategies as st

from pylogbroker.records import Header, Record

MILLISECONDS = st.integers(0, 1 << 48)
BYTES = st.one_of(st.binary(max_size=40), st.binary(min_size=60, max_size=300), st.sampled_from([b"", b"x" * 5000]))
HEADERS: st.SearchStrategy[tuple[Header, ...]] = st.lists(
    st.tuples(st.text(max_size=8), st.none() | st.binary(max_size=20)), max_size=3
).map(tuple)


@st.composite
def records(draw: st.DrawFn, *, headers: bool = True, timestamps: bool = True) -> list[Record]:
    """Some records with offsets 0, 1, 2, ..."""
    count = draw(st.integers(1, 12))
    return [
        Record(
            offset,
            draw(MILLISECONDS) if timestamps else -1,
            draw(st.none() | BYTES),
            draw(st.none() | BYTES),
            draw(HEADERS) if headers else (),
        )
        for offset in range(count)
    ]


def records_for(magic: int) -> st.SearchStrategy[list[Record]]:
    """Records that format `magic` can hold."""
    return records(headers=magic == 2, timestamps=magic > 0)


@st.composite
def alike(draw: st.DrawFn) -> list[Record]:
    """Records that have much in common, as those of one program do, and sometimes do not."""
    count = draw(st.integers(1, 150))
    chance = random.Random(draw(st.integers(0, 1 << 32)))
    key, value = draw(_fields(chance)), draw(_fields(chance))
    gap, pause = draw(st.sampled_from([1, 1, 3])), draw(st.sampled_from([0, 7]))
    headers = draw(st.sampled_from([(), (), (("a", b"b"),)]))
    return [Record(each * gap, 1500 + each * pause, key(), value(), headers) for each in range(count)]


@st.composite
def _fields(draw: st.DrawFn, chance: random.Random) -> Callable[[], bytes | None]:
    lengths = st.sampled_from([-1, 0, 1, 9, 100, 1024, 1025])
    some = draw(st.lists(lengths, min_size=1, max_size=1) | st.lists(lengths, min_size=1, max_size=4))

    def field() -> bytes | None:
        length = chance.choice(some)
        return None if length < 0 else chance.randbytes(length)

    return field
