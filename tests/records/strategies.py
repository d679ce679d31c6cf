"""Records for hypothesis to choose from."""

from __future__ import annotations

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
