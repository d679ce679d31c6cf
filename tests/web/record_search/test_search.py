"""Search over partitions, beside a search over a list of all records."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.conditions import Subject, compile_condition
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.records import Codec, Record, build, end_marker
from pylogbroker.records.batch import HEADER_V2
from pylogbroker.storage import Origin
from pylogbroker.web.record_search.search import SearchRequest, StartPoint, TopicSearch
from pylogbroker.web.record_search.selection import Selection
from pylogbroker.web.samples import Samples
from pylogbroker.web.visitors import Visitor
from tests.broker.nodes import START
from tests.broker.trees import now
from tests.web.test_views import ViewTests

NOW = int(START * 1000)
Place = tuple[int, int]


class SearchTests(ViewTests):
    """`records` has all that was appended, by partition."""

    partitions = 3

    def setUp(self) -> None:
        super().setUp()
        self.node.create("orders", partitions=self.partitions, segment_bytes="20000", max_message_bytes="10000000")
        self.records: dict[int, list[Record]] = {index: [] for index in range(self.partitions)}

    def append(self, partition: int, *records: Record, codec: Codec = Codec.NONE, **more: Any) -> None:
        log = self.node.broker.partitions.find("orders", partition)
        base = log.log.log_end_offset
        log.append(build(records, codec=codec, **more), NOW)
        for number, record in enumerate(records):
            self.records[partition].append(
                Record(base + number, record.timestamp, record.key, record.value, record.headers)
            )

    def fill(self, count: int, seed: int = 1) -> None:
        """Append batches of all codecs, with times that increase from batch to batch."""
        chance = random.Random(seed)
        time = NOW
        while count > 0:
            size = chance.choice([1, 3, 40])
            batch = []
            for _ in range(size):
                time += chance.choice([0, 1, 7])
                customer = chance.randrange(20)
                value = b'{"customer":"c-%d","amount":%d.50,"pad":"%s"}' % (
                    customer,
                    count,
                    b"x" * chance.randrange(90),
                )
                batch.append(Record(0, time, b"key-%d" % customer, value, (("trace", b"t%d" % count),)))
                count -= 1
            self.append(chance.randrange(self.partitions), *batch, codec=chance.choice(list(Codec)))

    def open(self, **request: Any) -> TopicSearch:
        visitor = Visitor(self.node.broker, RequestContext(0, "test", "127.0.0.1", "127.0.0.1"), Samples())
        return now(TopicSearch.opened(visitor, SearchRequest("orders", **request)))

    def places(self, count_max: int = 1000, advances_max: int = 10_000, **request: Any) -> list[Place]:
        """Return partition and offset of all records of a search; each search goes on where the one before ended."""
        found: list[Place] = []
        positions: Mapping[int, int] = {}
        while True:
            search = self.open(**{"positions": positions, **request})
            count = 0
            for _ in range(advances_max):
                rows = now(search.advance(count_max - count))
                found += [(row.partition, row.offset) for row in rows]
                count += len(rows)
                if search.is_done:
                    return found
                if count >= count_max:
                    break
            positions = search.positions

    def expected(self, selection: Selection = Selection(), is_newest_first: bool = True) -> list[Place]:  # noqa: B008
        chosen = [
            (record.timestamp, index, record.offset)
            for index, records in self.records.items()
            for record in records
            if selection.has(Subject(index, record.offset, record.timestamp, record.key, record.value, record.headers))
        ]
        sign = -1 if is_newest_first else 1
        ordered = sorted(chosen, key=lambda place: (sign * place[0], place[1], sign * place[2]))
        return [(index, offset) for _, index, offset in ordered]


class TestSearch(SearchTests):
    def test_all_records_come_in_the_order_of_time(self) -> None:
        self.fill(1500)
        for is_newest_first in (True, False):
            expected = self.expected(is_newest_first=is_newest_first)
            self.assertEqual(len(expected), sum(map(len, self.records.values())))
            self.assertEqual(self.places(is_newest_first=is_newest_first), expected)

    def test_searches_go_on_where_others_ended(self) -> None:
        self.fill(600)
        for is_newest_first in (True, False):
            expected = self.expected(is_newest_first=is_newest_first)
            for count_max, advances_max in ((1, 1000), (7, 8), (50, 8), (1000, 8)):
                self.assertEqual(self.places(count_max, advances_max, is_newest_first=is_newest_first), expected)

    def test_selected_records(self) -> None:
        self.fill(800)
        times = sorted(record.timestamp for records in self.records.values() for record in records)
        for selection in (
            Selection(compile_condition('value.customer == "c-3"')),
            Selection(compile_condition('value.amount > 700 and key ~ "KEY-1"')),
            Selection(compile_condition('not value.customer == "c-3" and offset < 100')),
            Selection(text="T799"),
            Selection(text="C-11", since_ms=times[200]),
            Selection(since_ms=times[100], until_ms=times[-50]),
            Selection(compile_condition('value.customer == "c-3"'), text="key-4"),
            Selection(until_ms=times[0]),
        ):
            for is_newest_first in (True, False):
                found = self.places(selection=selection, is_newest_first=is_newest_first)
                self.assertEqual(found, self.expected(selection, is_newest_first), selection)

    def test_start_points(self) -> None:
        self.fill(300)
        times = sorted(record.timestamp for records in self.records.values() for record in records)
        middle = times[150]
        newest = [place for place in self.expected() if self.time_of(place) < middle]
        self.assertEqual(self.places(start=StartPoint(time_ms=middle)), newest)
        oldest = [place for place in self.expected(is_newest_first=False) if self.time_of(place) >= middle]
        self.assertEqual(self.places(start=StartPoint(time_ms=middle), is_newest_first=False), oldest)
        self.assertEqual(self.places(start=StartPoint(offset=3), partitions=[1]), [(1, n) for n in (3, 2, 1, 0)])
        last = len(self.records[1]) - 1
        places = self.places(start=StartPoint(offset=last), partitions=[1], is_newest_first=False)
        self.assertEqual(places, [(1, last)])
        self.assertEqual(self.places(start=StartPoint(offset=10**9), partitions=[1], is_newest_first=False), [])
        self.assertEqual(self.places(start=StartPoint(time_ms=times[-1] + 1), is_newest_first=False), [])

    def time_of(self, place: Place) -> int:
        return self.records[place[0]][place[1]].timestamp

    def test_waiting_records_are_bounded(self) -> None:
        """One batch has many more records than an answer: the others are read again, and come once."""
        self.append(0, *(Record(0, NOW + n, None, b"x" * 10) for n in range(3000)), codec=Codec.ZSTD)
        for is_newest_first in (True, False):
            search = self.open(is_newest_first=is_newest_first, rows_max=100)
            self.assertEqual(len(now(search.advance(100))), 100)
            self.assertEqual(search.looked_at, 100)
            self.assertEqual(
                self.places(100, is_newest_first=is_newest_first, rows_max=100),
                self.expected(is_newest_first=is_newest_first),
            )

    def test_progress(self) -> None:
        self.fill(1000)
        search = self.open(selection=Selection(text="no such text"))
        self.assertEqual((search.total, search.looked_at, search.time), (self.count(), 0, None))
        looked_at = []
        while not search.is_done:
            self.assertEqual(now(search.advance(10)), [])
            looked_at.append(search.looked_at)
        self.assertEqual(looked_at, sorted(looked_at))
        self.assertGreater(len(looked_at), 1)
        self.assertEqual(search.looked_at, search.total)

    def count(self) -> int:
        return sum(map(len, self.records.values()))

    def test_markers_are_no_records(self) -> None:
        self.append(0, Record(0, NOW, None, b"one"))
        self.node.broker.partitions.find("orders", 0).append(
            build([Record(0, NOW, None, b"in a transaction")], producer_id=1, producer_epoch=0, base_sequence=0), NOW
        )
        self.node.broker.partitions.find("orders", 0).append(end_marker(True, 0, 1, 0, NOW), NOW, Origin.COORDINATOR)
        self.append(0, Record(0, NOW + 1, None, b"two"))
        self.assertEqual(self.places(), [(0, 3), (0, 1), (0, 0)])

    def test_a_damaged_batch_is_named_and_left_out(self) -> None:
        for value in (b"one", b"two" * 30, b"three"):
            self.append(0, Record(0, NOW, None, value), codec=Codec.GZIP)
        log = self.node.broker.partitions.find("orders", 0).log
        region = log.read(1, 1, upto=3)
        assert region is not None
        with open(log.segments[-1].file.path, "r+b") as file:
            file.seek(region.position + HEADER_V2.size + 20)
            file.write(b"\xff" * 8)
        for is_newest_first in (True, False):
            search = self.open(is_newest_first=is_newest_first)
            found = []
            while not search.is_done:
                found += [row.offset for row in now(search.advance(10))]
            self.assertEqual(found, [2, 0] if is_newest_first else [0, 2])
            [problem] = search.problems
            self.assertIn("The batch with offsets 1 to 1 of partition 0 cannot be read", problem)

    def test_records_that_retention_deletes_meanwhile(self) -> None:
        self.fill(900)
        partition = self.node.broker.partitions.find("orders", 0)
        for is_newest_first in (True, False):
            search = self.open(is_newest_first=is_newest_first)
            now(search.advance(10))
            partition.log.delete_records_before(partition.log.log_start_offset + 50)
            while not search.is_done:
                now(search.advance(1000))
            self.assertEqual(search.problems, [])

    def test_partitions_without_a_leader_are_named(self) -> None:
        self.append(0, Record(0, NOW, None, b"one"))
        self.node.change_partition("orders", 1, leader=-1)
        search = self.open()
        self.assertEqual(search.problems, ["Partition 1 has no leader now: its records are missing here."])
        self.assertEqual([row.offset for row in now(search.advance(10))], [0])

    def test_partitions_that_do_not_exist(self) -> None:
        with self.assertRaises(KafkaError) as raised:
            self.open(partitions=[0, 3])
        self.assertEqual(raised.exception.code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        self.assertEqual(raised.exception.detail, "orders has no partition 3: it has 3, from 0 on")
