"""Choice of remote segments, compared with a search offset by offset."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pylogbroker.storage.remote.lineage import agreed_end, choose, contiguous_end, find
from pylogbroker.storage.remote.manifest import Epochs, RemoteSegment
from pylogbroker.storage.remote.object_names import SegmentName

END = 30


def segment(base: int, end: int, *epochs: tuple[int, int], number: int = 0) -> RemoteSegment:
    name = SegmentName(base, end, epochs[-1][0], f"{number:032x}")
    return RemoteSegment(name, "t", 0, 100, -1, epochs, -1, 0, 10, 0)


def epoch_at(epochs: Epochs, offset: int) -> int:
    return max((epoch for epoch, start in epochs if start <= offset), default=-1)


@st.composite
def histories(draw: st.DrawFn, first: int = 0, last: int = END) -> Epochs:
    starts = [first, *draw(st.lists(st.integers(first + 1, last - 1), unique=True, max_size=4).map(sorted))]
    numbers = draw(st.lists(st.integers(0, 9), unique=True, min_size=len(starts), max_size=len(starts)).map(sorted))
    return tuple(zip(numbers, starts, strict=True))


@st.composite
def segments(draw: st.DrawFn) -> RemoteSegment:
    base = draw(st.integers(0, END - 3))
    end = draw(st.integers(base + 2, END))
    return segment(base, end, *draw(histories(base, end)))


def prefix(one: RemoteSegment, epochs: Epochs, start: int) -> int:
    """End of the offsets from the beginning on whose epochs are the same."""
    offset = max(one.base_offset, start)
    while offset < one.end_offset and epoch_at(one.epochs, offset) == epoch_at(epochs, offset):
        offset += 1
    return offset


@given(segments(), histories(), st.integers(0, END))
def test_a_segment_counts_up_to_the_first_other_epoch(one: RemoteSegment, epochs: Epochs, start: int) -> None:
    if start < one.end_offset:
        assert agreed_end(one, epochs, start) == prefix(one, epochs, start)


@given(st.lists(segments(), max_size=6), histories(), st.integers(0, END))
def test_pieces_cover_all_that_any_segment_has(some: list[RemoteSegment], epochs: Epochs, start: int) -> None:
    pieces = choose(some, epochs, start)
    covered = [offset for piece in pieces for offset in range(piece.first_offset, piece.end_offset)]
    wanted = {
        offset
        for one in some
        if one.end_offset > start
        for offset in range(max(one.base_offset, start), prefix(one, epochs, start))
    }
    assert covered == sorted(wanted)
    for piece in pieces:
        offsets = range(piece.first_offset, piece.end_offset)
        assert all(epoch_at(piece.segment.epochs, offset) == epoch_at(epochs, offset) for offset in offsets)
    for first in range(END + 1):
        expected = next(offset for offset in range(first, END + 2) if offset not in wanted)
        assert contiguous_end(pieces, first) == expected
        number = find(pieces, first)
        assert (number is not None) == (first in wanted)


def test_a_zombies_segments_do_not_count() -> None:
    """KIP-405: a leader of epoch 0 copies on, while that of epoch 1 has begun at 100."""
    epochs = ((0, 0), (1, 100))
    zombie, ours = segment(50, 150, (0, 50)), segment(80, 160, (0, 80), (1, 100))
    first, second = choose([zombie, ours], epochs, 50)
    assert (first.segment, first.first_offset, first.end_offset) == (zombie, 50, 100)
    assert (second.segment, second.first_offset, second.end_offset) == (ours, 100, 160)
