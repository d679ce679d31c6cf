"""GET of records: places, limits, long polls, committed records alone, groups."""

from __future__ import annotations

import json
from typing import Any

from twisted.internet.error import ConnectionDone
from twisted.python.failure import Failure

from pylogbroker.records import Codec
from pylogbroker.security.acls.bindings import AclOperation, AclResourceType
from pylogbroker.web.records_api import positions
from pylogbroker.web.records_api.reading import ANSWER_CHARACTERS_MAX, LIMIT_MAX
from tests.broker.transactions import TransactionTests
from tests.broker.trees import now
from tests.web.records_api.http_tests import PATH, HttpTests, RecordsTests, answer_of, request_of
from tests.web.test_views import NOW, MemberTests
from tests.web.test_visitors import AnonymousTests


class TestPlaces(RecordsTests):
    def setUp(self) -> None:
        super().setUp()
        self.append(*"abcde")
        self.append("x", "y", partition=1)

    def test_each_place(self) -> None:
        for query, expected in (
            ("", "abcdexy"),
            ("from=earliest", "abcdexy"),
            ("from=latest", ""),
            ("from=-1", "ey"),
            ("from=-99", "abcdexy"),
            ("from=0:3", "de"),
            ("from=0:3,1:1", "dey"),
            ("partition=0&from=3", "de"),
            ("partition=1", "xy"),
            (f"from=@{NOW + 1}", "bcdey"),
            (f"from=@{NOW + 4}", "e"),
            ("from=2023-11-14T22:13:20", "abcdexy"),
            ("from=2099-01-01", ""),
            ("from=0:1&to=0:3", "bc"),
            (f"to=@{NOW + 1}", "ax"),
            ("to=0:1", "a"),
            ("to=earliest", ""),
            ("from=0:3&to=0:1", ""),
        ):
            found = self.read(query)
            self.assertEqual("".join(row["value"] for row in found["records"]), expected, query)
            self.assertTrue(found["at_end"], query)

    def test_next_goes_on(self) -> None:
        found, place, rounds = [], "earliest", 0
        while True:
            page = self.read(f"from={place}&limit=2")
            found += [row["value"] for row in page["records"]]
            place, rounds = page["next"], rounds + 1
            if page["at_end"]:
                break
            self.assertEqual(len(page["records"]), 2)
        self.assertEqual((sorted(found), place), ([*"abcdexy"], "0:5,1:2,*"))
        self.append("f")
        self.assertEqual([row["value"] for row in self.read(f"from={place}")["records"]], ["f"])

    def test_lines(self) -> None:
        answer = self.request("GET", f"{PATH}?from=0:4", accept="application/x-ndjson")
        record, rest = map(json.loads, answer.body.splitlines())
        self.assertEqual((answer.headers["content-type"], record["value"]), ("application/x-ndjson", "e"))
        self.assertEqual(rest, {"next": "0:5", "at_end": True})

    def test_errors(self) -> None:
        for query, code, reason in (
            ("from=3", 400, "does not say of which partition: write 0:3"),
            ("from=soon", 400, "from must be earliest, latest, a time"),
            ("from=0:1,0:2", 400, "from has partition 0 twice"),
            ("from=0:99999999999999999999", 400, "a number that is too large"),
            ("from=7:0", 404, "no partition 7"),
            ("partition=7", 404, "no partition 7"),
            ("from=0:6", 416, "it has offsets from 0 to 5. Go on with from=0:0"),
            ("wait=61", 400, "wait must be 0 to 60"),
            ("wait=-1", 400, "wait must be 0 to 60"),
            ("limit=0", 400, "limit must be at least 1"),
            ("limit=x", 400, "limit must be"),
            ("format=xml", 400, "format must be one of auto, text, base64"),
            ("form=1", 400, "did you mean 'format'?"),
        ):
            self.assertIn(reason, self.read(query, code)["error"])
        self.assertEqual(self.request("GET", "/api/topics/missing/records").code, 404)

    def test_answers_are_bounded(self) -> None:
        big = "x" * (ANSWER_CHARACTERS_MAX // 4)
        for _ in range(6):
            self.append(big)
        page = self.read("from=0:5")
        self.assertEqual((len(page["records"]), page["at_end"]), (4, False))
        many = [str(number) for number in range(LIMIT_MAX + 1)]
        self.append(*many, partition=1)
        page = self.read(f"from=1:2&limit={LIMIT_MAX * 9}")
        self.assertEqual((len(page["records"]), page["next"]), (LIMIT_MAX, f"1:{LIMIT_MAX + 2}"))

    def test_compressed_records(self) -> None:
        self.append(*"fg", codec=Codec.ZSTD)
        self.assertEqual(self.values("from=0:6"), ["g"])

    def test_positions_of_many_partitions_go_on(self) -> None:
        self.node.create("wide", partitions=positions.PARTITIONS_MAX)
        path = "/api/topics/wide/records"
        place = ",".join(f"{index}:0" for index in range(positions.PARTITIONS_MAX))
        body = json.loads(self.request("GET", f"{path}?from={place}").body)
        self.assertEqual(body["next"], place)
        longest = ",".join(f"{index}:9999999999" for index in range(positions.PARTITIONS_MAX))
        self.assertEqual(self.request("GET", f"{path}?from={longest}").code, 416)
        self.node.create("wider", partitions=positions.PARTITIONS_MAX + 1)
        answer = self.request("GET", "/api/topics/wider/records")
        self.assertEqual((answer.code, "partition is missing" in answer.body), (400, True))

    def test_records_that_are_deleted(self) -> None:
        self.node.broker.partitions.find("clicks", 0).delete_records_before(3)
        self.assertIn("from=0:3", self.read("from=0:1", 416)["error"])
        self.assertEqual(self.values("partition=0"), ["d", "e"])


class TestLongPolls(RecordsTests):
    def poll(self, query: str) -> Any:
        connection = self.opened()
        connection.protocol.dataReceived(request_of("GET", f"{PATH}?{query}"))
        return connection

    def test_a_request_waits_for_the_first_record(self) -> None:
        connection = self.poll("from=latest&wait=10")
        self.node.clock.advance(5)
        self.assertEqual(connection.transport.value(), b"")
        self.append("new", partition=1)
        self.node.clock.advance(0)
        body = json.loads(answer_of(connection).body)
        self.assertEqual(([row["value"] for row in body["records"]], body["next"]), (["new"], "0:0,1:1,*"))
        self.assert_nothing_waits()

    def test_a_request_gets_the_partitions_that_are_added(self) -> None:
        waiting, of_some = self.poll("from=0:0,1:0,*&wait=10"), self.poll("from=0:0,1:0&wait=10")
        now(self.node.broker.controller.create_partitions("clicks", 3))
        self.node.clock.advance(0)
        self.append("new", partition=2)
        self.node.clock.advance(0)
        body = json.loads(answer_of(waiting).body)
        self.assertEqual(([row["value"] for row in body["records"]], body["next"]), (["new"], "0:0,1:0,2:1,*"))
        self.assertEqual(of_some.transport.value(), b"")
        self.assertEqual(self.values("from=0:0,1:0,*"), ["new"])
        self.node.clock.advance(10)
        self.assertEqual(json.loads(answer_of(of_some).body)["next"], "0:0,1:0")
        self.assert_nothing_waits()

    def test_a_partition_without_a_leader_stops_no_other(self) -> None:
        led = self.node.broker.partitions.led
        taken = led.pop(("clicks", 0))
        self.append("one", partition=1)
        page = self.read("from=0:0,1:0")
        self.assertEqual(([row["value"] for row in page["records"]], page["at_end"]), (["one"], False))
        connection = self.poll(f"from={page['next']}&wait=10")
        led["clicks", 0] = taken
        self.append("two")
        self.node.clock.advance(1)
        self.assertEqual([row["value"] for row in json.loads(answer_of(connection).body)["records"]], ["two"])
        led.clear()
        self.assertIn("does not lead", self.read("from=0:0,1:0", 503)["error"])

    def test_a_wait_ends(self) -> None:
        connection = self.poll("from=latest&wait=10")
        self.node.clock.advance(10)
        self.assertEqual(json.loads(answer_of(connection).body)["records"], [])
        self.assert_nothing_waits()

    def test_a_client_that_leaves_waits_no_more(self) -> None:
        connection = self.poll("from=latest&wait=10")
        connection.protocol.connectionLost(Failure(ConnectionDone()))
        self.assert_nothing_waits()
        self.assertEqual(self.root.records.readers.running, 0)

    def test_a_stop_ends_waits(self) -> None:
        self.poll("from=latest&wait=10")
        self.source.stop()
        self.assert_nothing_waits()

    def test_a_request_that_has_reached_its_end_does_not_wait(self) -> None:
        self.append("a")
        self.assertTrue(json.loads(answer_of(self.poll("from=0:1&to=0:1&wait=10")).body)["at_end"])

    def assert_nothing_waits(self) -> None:
        for index in (0, 1):
            self.assertEqual(len(self.node.broker.partitions.find("clicks", index).purgatory), 0)


class TestCommittedRecords(RecordsTests, TransactionTests):
    settings = TransactionTests.settings

    def test_open_and_aborted_transactions_are_not_read(self) -> None:
        self.node.create("moved")
        path = "/api/topics/moved/records"
        committed, aborted, open_ = (self.producer(name) for name in ("committed", "aborted", "open"))
        for producer in (committed, aborted):
            producer.add(("moved", 0))
            producer.send(producer.transactional_id.encode(), topic="moved", index=0)
        committed.end(True)
        aborted.end(False)
        self.post({"value": "plain"}, path)
        open_.add(("moved", 0))
        open_.send(b"open", topic="moved", index=0)
        self.post({"value": "behind"}, path)
        body = json.loads(self.request("GET", path).body)
        self.assertEqual([row["value"] for row in body["records"]], ["committed", "plain"])
        self.assertTrue(body["at_end"])
        open_.end(True)
        aborted.add(("moved", 0))
        aborted.send(b"in the next transaction", topic="moved", index=0)
        aborted.end(True)
        body = json.loads(self.request("GET", f"{path}?from={body['next']}").body)
        expected = ["open", "behind", "in the next transaction"]
        self.assertEqual([row["value"] for row in body["records"]], expected)
        body = json.loads(self.request("GET", path).body)
        self.assertEqual([row["value"] for row in body["records"]], ["committed", "plain", *expected])

    def test_records_that_come_while_hidden_ones_are_read_end_the_wait(self) -> None:
        aborted = self.producer("aborted")
        aborted.add(("clicks", 1))
        aborted.send(b"hidden", topic="clicks", index=1)
        aborted.end(False)
        self.node.threads.holding = True
        connection = self.opened()
        connection.protocol.dataReceived(request_of("GET", f"{PATH}?wait=10"))
        self.append("new")
        self.node.threads.holding = False
        while self.node.threads.held:
            self.node.threads.run_one()
        self.assertEqual([row["value"] for row in json.loads(answer_of(connection).body)["records"]], ["new"])


class TestDamage(RecordsTests):
    def test_damaged_records_are_named(self) -> None:
        self.append(*"abc", codec=Codec.GZIP)
        self.append("d")
        log = self.node.broker.partitions.find("clicks", 0).log
        with open(log.segments[0].file.path, "r+b") as file:
            file.seek(64)
            file.write(bytes(8))
        self.assertIn("partition 0 is damaged at or behind offset 0", self.read("from=0:0", 503)["error"])
        self.assertEqual(self.values("from=0:3"), ["d"])


class TestGroups(RecordsTests):
    OFFSETS = "/api/groups/readers/offsets"

    def commit_body(self, body: Any, code: int = 200) -> Any:
        answer = self.post(body, self.OFFSETS)
        self.assertEqual(answer.code, code, answer.body)
        return json.loads(answer.body)

    def test_a_group_goes_on_where_it_has_committed(self) -> None:
        self.append(*"abc")
        self.append("x", partition=1)
        page = self.read("group=readers&limit=2")
        self.assertEqual(len(page["records"]), 2)
        self.assertEqual(self.commit_body({"topic": "clicks", "next": page["next"]})["committed"], 2)
        self.assertEqual(self.values("group=readers"), ["b", "c"])
        self.assertEqual(self.values("group=others&from=latest"), [])
        offsets = json.loads(self.request("GET", self.OFFSETS).body)
        lags = [(row["partition"], row["offset"], row["lag"]) for row in offsets["offsets"]]
        self.assertEqual((offsets["total"], lags), (2, [(0, 1, 2), (1, 1, 0)]))

    def test_offsets_with_metadata(self) -> None:
        self.commit_body({"offsets": [{"topic": "clicks", "partition": 1, "offset": 0, "metadata": "m"}]})
        [row] = json.loads(self.request("GET", f"{self.OFFSETS}?topic=clicks").body)["offsets"]
        self.assertEqual(row, {"topic": "clicks", "partition": 1, "offset": 0, "metadata": "m", "lag": 0})
        self.assertEqual(json.loads(self.request("GET", f"{self.OFFSETS}?topic=none").body)["total"], 0)

    def test_errors(self) -> None:
        for body, code, reason in (
            ({}, 400, "there are no offsets"),
            ({"next": "0:1"}, 400, "topic is missing"),
            ({"topic": "clicks", "next": "latest"}, 400, "next must be positions like 0:17,1:4"),
            ({"topic": "missing", "next": "0:1"}, 404, "missing"),
            ({"offsets": [{"topic": "clicks"}]}, 400, "partition is missing"),
            ({"offsets": [{"topic": "clicks", "partition": 9, "offset": 0}]}, 404, "clicks-9"),
            ({"offsets": [{"topic": "clicks", "partition": 0, "offset": "1"}]}, 400, "offset must be"),
            ({"offsets": [{"topic": "clicks", "partition": 0, "offset": 1}] * 2}, 400, "a partition occurs twice"),
            ({"group": "x"}, 400, "there is no 'group' here"),
        ):
            self.assertIn(reason, self.commit_body(body, code)["error"])
        self.assertEqual(self.request("POST", self.OFFSETS, b"x", "text/plain").code, 415)


class TestGroupsWithMembers(HttpTests, MemberTests):
    def test_the_members_commit(self) -> None:
        self.join(b"")
        answer = self.post({"topic": "clicks", "next": "0:0"}, "/api/groups/readers/offsets")
        self.assertEqual((answer.code, "has members" in answer.body), (409, True), answer.body)


class TestRights(AnonymousTests, RecordsTests):
    def test_records_need_the_right_to_read(self) -> None:
        self.read("", 403)
        self.allow(AclOperation.DESCRIBE, AclResourceType.TOPIC, "clicks")
        self.read("", 403)
        self.allow(AclOperation.READ, AclResourceType.TOPIC, "clicks")
        self.read("")
        self.read("group=readers", 403)
        self.assertEqual(self.request("GET", "/api/groups/readers/offsets").code, 403)
        commit = {"topic": "clicks", "next": "0:0"}
        self.assertEqual(self.post(commit, "/api/groups/readers/offsets").code, 403)
        self.allow(AclOperation.READ, AclResourceType.GROUP, "readers")
        self.assertEqual(self.post(commit, "/api/groups/readers/offsets").code, 200)
        self.read("group=readers")


class TestQuotas(RecordsTests):
    def test_a_reader_waits_as_a_consumer_would(self) -> None:
        quota = {"user": "ANONYMOUS", "key": "consumer_byte_rate", "value": 100}
        self.request("PUT", "/api/quotas", json.dumps(quota).encode(), "application/json")
        self.append("x" * 5000)
        connection = self.opened()
        connection.protocol.dataReceived(request_of("GET", PATH))
        self.assertEqual(connection.transport.value(), b"")
        self.node.clock.advance(60)
        self.assertEqual(len(json.loads(answer_of(connection).body)["records"]), 1)


class TestOldMessages(RecordsTests):
    settings = {"inter.broker.protocol.version": "2.8", "log.message.format.version": "0.10.2"}

    def test_compressed_message_sets_are_read(self) -> None:
        """They name their last offset alone."""
        self.append(*"abc", magic=1, codec=Codec.GZIP)
        self.assertEqual(self.node.broker.partitions.find("clicks", 0).log.config.magic, 1)
        self.assertEqual(self.values("from=0:1"), ["b", "c"])
