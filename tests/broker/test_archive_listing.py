"""Listings of archived partitions with very many segments."""

from __future__ import annotations

import gc
import time
from unittest.mock import patch
from uuid import UUID

import attrs
import pytest

from pylogbroker.broker.archive import upkeep
from pylogbroker.broker.archive.listing import NOT_LISTED, ArchiveListing
from pylogbroker.broker.archive.partition import ArchivedPartition
from pylogbroker.broker.partitions.service import Partitions
from pylogbroker.interfaces import SegmentView
from pylogbroker.plugins.remote_storages import DirectoryStorage
from pylogbroker.storage.remote import contents
from pylogbroker.storage.remote.contents import Contents
from pylogbroker.storage.remote.lineage import choose
from pylogbroker.storage.remote.manifest import RemoteSegment
from pylogbroker.storage.remote.object_names import SegmentName
from tests.broker.archives import ArchiveTests
from tests.broker.log_lines import logged_lines

VALUES = [b"%020d" % number for number in range(9)]
SEGMENTS = 20_000
SECONDS_MAX = 0.002  # 10 ms with 100,000 segments


def segment(number: int, epoch: int = 0, records: int = 10) -> RemoteSegment:
    base = 10 * number
    name = SegmentName(base, base + records, epoch, UUID(int=number + (epoch << 64)).hex)
    return RemoteSegment(name, "t", 0, 100 + number % 7, 1000 + number, ((epoch, base),), -1, 5, 50, 0)


def listing_of(*segments: RemoteSegment, start: int = 0) -> ArchiveListing:
    epochs = sorted({(one.name.leader_epoch, one.base_offset) for one in segments}, key=lambda entry: entry[1])
    latest = tuple(entry for number, entry in enumerate(epochs) if not number or entry[0] != epochs[number - 1][0])
    return ArchiveListing.of(3, Contents(segments), choose(segments, latest, start))


def rebuilt(listing: ArchiveListing) -> ArchiveListing:
    """Return the listing as a worker thread makes it."""
    return ArchiveListing.of(listing.epoch, listing.contents, listing.pieces)


def views(listing: ArchiveListing, offset: int) -> list[tuple[int, int]]:
    pieces, some = listing.below(offset)
    assert [(piece.first_offset, piece.end_offset) for piece in pieces] == [
        (view.base_offset, view.next_offset) for view in some
    ]
    return [(view.base_offset, view.next_offset) for view in some]


def test_a_listing_grows_by_copies_and_shrinks_by_deletions() -> None:
    listing = ArchiveListing.of(3, Contents(), ())
    segments = [segment(number) for number in range(5)]
    for stored in segments:
        grown = listing.with_copy(stored, 0)
        assert grown is not None
        listing = grown
    assert listing == listing_of(*segments)
    assert listing.with_copy(segment(2), 0) is None  # it is not behind the others
    for number, gone in enumerate(segments):
        listing = listing.without(gone)
        assert listing == rebuilt(listing)
        assert listing.contents.segments == tuple(segments[number + 1 :])
        assert [piece.segment for piece in listing.pieces] == segments[number + 1 :]


def test_a_copy_after_a_gap_of_the_log_start_begins_there() -> None:
    grown = ArchiveListing.of(3, Contents(), ()).with_copy(segment(1), 14)
    assert grown is not None
    assert views(grown, 100) == [(14, 20)]


def test_a_segment_without_a_piece_goes_from_the_contents_alone() -> None:
    shadowed = segment(1, epoch=0, records=5)
    better = attrs.evolve(segment(1), name=SegmentName(10, 20, 0, "f" * 32))
    listing = listing_of(segment(0), *sorted((shadowed, better), key=lambda one: one.name), segment(2))
    assert [piece.segment for piece in listing.pieces] == [segment(0), better, segment(2)]
    without = listing.without(shadowed)
    assert (without.pieces, without.size) == (listing.pieces, listing.size)
    assert shadowed not in without.contents.segments


def test_pieces_below_an_offset_are_cut_there() -> None:
    listing = listing_of(*(segment(number) for number in range(3)))
    assert views(listing, 0) == []
    assert views(listing, 15) == [(0, 10), (10, 15)]
    assert views(listing, 20) == [(0, 10), (10, 20)]
    assert views(listing, 99) == [(0, 10), (10, 20), (20, 30)]
    assert listing.views[1] == SegmentView(10, 20, 101, 1001, 5, False)


def test_segments_end_before_the_log_start() -> None:
    long_one = attrs.evolve(segment(0), name=SegmentName(0, 25, 0, "e" * 32))
    listing = listing_of(*sorted((segment(0), long_one, segment(1), segment(2)), key=lambda one: one.name))
    assert list(listing.ending_before(20)) == [segment(0), segment(1)]
    assert list(NOT_LISTED.ending_before(20)) == []


@pytest.fixture(scope="module")
def many() -> ArchiveListing:
    segments = tuple(segment(number) for number in range(SEGMENTS))
    return ArchiveListing.of(3, Contents(segments), choose(segments, ((0, 0),), 0))


@pytest.mark.parametrize(
    "action",
    [
        lambda many: many.below(10 * SEGMENTS - 5),
        lambda many: next(many.ending_before(10 * SEGMENTS), None),
        lambda many: many.with_copy(segment(SEGMENTS), 0),
        lambda many: many.without(segment(0)),
        lambda many: many.without(many.contents.segments[SEGMENTS // 2]),
        lambda many: many.swept(frozenset()),
        lambda many: many.beyond_end(),
        lambda many: many.size,
    ],
)
def test_the_reactor_is_not_kept_by_very_many_segments(many: ArchiveListing, action: object) -> None:
    gc.collect()
    times = []
    for _ in range(5):
        begin = time.thread_time()
        action(many)  # type: ignore[operator]
        times.append(time.thread_time() - begin)
    assert min(times) < SECONDS_MAX


class FollowerTests(ArchiveTests):
    """The leader's copies are made by a node that then follows."""

    def setUp(self) -> None:
        super().setUp()
        self.create()
        self.append("t", *VALUES)
        self.copy()
        self.listings = 0
        original = DirectoryStorage.list

        def counted(store: DirectoryStorage, prefix: str) -> object:
            self.listings += prefix.startswith(str(self.partition().log.topic_id))
            return original(store, prefix)

        self.enterContext(patch.object(DirectoryStorage, "list", counted))
        self.enterContext(patch.object(Partitions, "is_led", lambda partitions, partition: False))
        partition = self.partition()
        partition.followed = object()  # type: ignore[assignment]
        partition.leader_epoch += 1  # nothing is listed in it

    def test_a_follower_lists_what_is_stored_when_local_segments_expire(self) -> None:
        self.do_round()
        self.assertEqual(self.listings, 0)
        self.node.clock.advance(10)
        self.expire()
        self.assertEqual(self.partition().log.local_start_offset, 0)
        self.do_round()
        self.assertEqual(self.listings, 1)
        self.expire()
        self.assertGreater(self.partition().log.local_start_offset, 0)
        self.do_round()
        self.assertEqual(self.listings, 1)

    def test_slow_listings_take_a_small_part_of_the_time(self) -> None:
        self.expire()
        archive = self.partition().archive
        assert isinstance(archive, ArchivedPartition)
        slow = contents.load

        def load(*arguments: object) -> object:
            self.node.clock.advance(2)
            return slow(*arguments)  # type: ignore[arg-type]

        with patch.object(contents, "load", load):
            self.do_round()
        archive._keeps_expired = True  # another leader's segments, which are not stored yet
        for seconds, listings in ((150, 1), (49, 1), (1, 2)):
            self.node.clock.advance(seconds)
            self.do_round()
            self.assertEqual(self.listings, listings)


class LargestTests(ArchiveTests):
    def test_a_partition_with_too_many_segments_gets_no_more_until_some_are_deleted(self) -> None:
        log = self.create().log
        self.append("t", *VALUES)
        with patch.object(upkeep, "SEGMENTS_MAX", 2), logged_lines() as lines:
            self.archive_all()
            self.assertEqual(self.manifests(), 2)
            self.assertEqual(self.read_all(), list(enumerate(VALUES)))
            first = log.local_start_offset
            log.start_at(first)
            self.do_round()
            self.assertEqual(self.manifests(), 0)
            self.archive_all()
            self.assertEqual(self.manifests(), 2)
        self.assertTrue(any("it has 2 segments, and gets no more: choose" in line for line in lines), lines)
        self.assertEqual(self.read_all(), list(enumerate(VALUES))[first:])

    def manifests(self) -> int:
        return sum(name.endswith(".manifest") for name in self.objects())
