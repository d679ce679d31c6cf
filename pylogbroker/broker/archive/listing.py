"""Contents of the remote storage for one partition, as the leader epoch that listed them has them.

A partition may have 100,000 segments. Values are made in worker threads, where each step may take time for each
segment. Changes and look-ups on the reactor thread bisect, and copy tuples without a look at their items.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Final

import attrs

from pylogbroker.interfaces import SegmentView
from pylogbroker.storage.remote.contents import Contents
from pylogbroker.storage.remote.lineage import Pieces, SegmentPiece
from pylogbroker.storage.remote.manifest import RemoteSegment
from pylogbroker.storage.remote.object_names import SegmentName

_name = attrgetter("name")
_base = attrgetter("base_offset")
_first = attrgetter("first_offset")


@attrs.frozen
class ArchiveListing:
    """Segments by their names, and pieces of the log with their views, both in order."""

    epoch: int
    contents: Contents
    pieces: Pieces
    views: tuple[SegmentView, ...]  # of the pieces, for delete policies
    aborted: Pieces = attrs.field(eq=False)  # with markers of aborted transactions; also those deleted since
    size: int  # bytes of the pieces' segments
    newest_epoch: int = attrs.field(eq=False)  # of the leaders that had copied them when they were listed; or -1
    is_beyond_end: bool = False
    """True if the archive has records that the leader's log should have, but has not: nothing is copied or deleted."""

    @classmethod
    def of(cls, epoch: int, contents: Contents, pieces: Pieces) -> ArchiveListing:
        """Return a listing. Takes time for each segment."""
        return cls(
            epoch,
            contents,
            pieces,
            tuple(map(_view, pieces)),
            tuple(filter(_has_aborted, pieces)),
            sum(piece.segment.size for piece in pieces),
            max((piece.segment.name.leader_epoch for piece in pieces), default=-1),
        )

    def below(self, offset: int) -> tuple[Pieces, Sequence[SegmentView]]:
        """Return the pieces below an offset, and their views; the last one may be cut there."""
        count = bisect_left(self.pieces, offset, key=_first)
        pieces, views = self.pieces[:count], self.views[:count]
        if pieces and pieces[-1].end_offset > offset:
            last = attrs.evolve(pieces[-1], end_offset=offset)
            return (*pieces[:-1], last), (*views[:-1], _view(last))
        return pieces, views

    def ending_before(self, offset: int) -> Iterator[RemoteSegment]:
        """Yield the segments whose records are all below an offset. The listing may be replaced meanwhile."""
        segments = self.contents.segments
        for segment in segments[: bisect_left(segments, offset, key=_base)]:
            if segment.end_offset <= offset:
                yield segment

    def has(self, name: SegmentName) -> bool:
        """Return whether a segment counts as stored."""
        segments = self.contents.segments
        at = bisect_left(segments, name, key=_name)
        return at < len(segments) and segments[at].name == name

    def with_copy(self, stored: RemoteSegment, log_start: int) -> ArchiveListing | None:
        """Return the listing with another segment behind the others; None if it is not behind them."""
        segments, end = self.contents.segments, self.pieces[-1].end_offset if self.pieces else log_start
        if stored.end_offset <= end:
            return None
        piece = SegmentPiece(stored, max(stored.base_offset, end), stored.end_offset)
        at = bisect_left(segments, stored.name, key=_name)
        return attrs.evolve(
            self,
            contents=attrs.evolve(self.contents, segments=(*segments[:at], stored, *segments[at:])),
            pieces=(*self.pieces, piece),
            views=(*self.views, _view(piece)),
            aborted=(*self.aborted, piece) if _has_aborted(piece) else self.aborted,
            size=self.size + stored.size,
        )

    def without(self, segment: RemoteSegment) -> ArchiveListing:
        segments, pieces, views, size = self.contents.segments, self.pieces, self.views, self.size
        at = bisect_left(segments, segment.name, key=_name)
        if segments[at : at + 1] == (segment,):
            segments = segments[:at] + segments[at + 1 :]
        slot = bisect_right(pieces, segment.end_offset - 1, key=_first) - 1
        while slot >= 0 and pieces[slot].first_offset >= segment.base_offset:
            if pieces[slot].segment is segment:
                pieces, views = pieces[:slot] + pieces[slot + 1 :], views[:slot] + views[slot + 1 :]
                size -= segment.size
                break
            slot -= 1
        contents = attrs.evolve(self.contents, segments=segments)
        return attrs.evolve(self, contents=contents, pieces=pieces, views=views, size=size)

    def swept(self, deleted: frozenset[SegmentName]) -> ArchiveListing:
        """Return the listing after a sweep, which has left these tombstones."""
        contents = attrs.evolve(self.contents, deleted=deleted, undeleted=frozenset(), unfinished=frozenset())
        return attrs.evolve(self, contents=contents)

    def beyond_end(self) -> ArchiveListing:
        """Return the listing of an archive that does not count, since it ends behind the log."""
        return attrs.evolve(self, pieces=(), views=(), aborted=(), size=0, is_beyond_end=True)


def _has_aborted(piece: SegmentPiece) -> bool:
    return piece.segment.first_aborted >= 0


def _view(piece: SegmentPiece) -> SegmentView:
    segment = piece.segment
    return SegmentView(
        piece.first_offset, piece.end_offset, segment.size, segment.max_timestamp, segment.copied_ms, False
    )


NOT_LISTED: Final = ArchiveListing.of(-2, Contents(), ())
