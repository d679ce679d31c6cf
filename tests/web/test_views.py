"""The JSON API, asked on connections without sockets, of a node with a workload."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import patch
from urllib.parse import parse_qsl, urlencode

from twisted.internet.address import IPv4Address
from twisted.internet.task import Clock

from pylogbroker.broker.apis import find_coordinator, offset_commit
from pylogbroker.groups import Join, JoinResult, Sync
from pylogbroker.web.fault_port import FaultPort
from pylogbroker.web.pages import PageRoot
from pylogbroker.web.site import AllowedHosts, CheckedSite
from pylogbroker.web.views import Source
from pylogbroker.wire.consumer_protocol import encode_assignment
from pylogbroker.wire.messages.find_coordinator import FindCoordinatorRequest
from pylogbroker.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.broker.nodes import CLUSTER_ID, NODE_ID, START, NodeTests
from tests.broker.trees import now
from tests.web.described import operation
from tests.web.test_site import Connection, HalfClosable, factory_of

NOW = int(START * 1000)
HOSTILE = "<script>alert(1)</script>"


class ViewTests(NodeTests):
    """`ask` gets a view; the peer and this side have the address `address`."""

    address = "127.0.0.1"

    def setUp(self) -> None:
        super().setUp()
        self.serve()

    def serve(self) -> None:
        """Serve the node that there is now."""
        self.source = Source(self.node.broker, self.faults())
        self.root = PageRoot(self.source)
        self.site_clock = Clock()
        site = CheckedSite(self.site_clock, self.root, AllowedHosts([]), self.root.records.serves)
        self.factory = factory_of(site, 400)

    def faults(self) -> FaultPort | None:
        """Return faults of a broker whose testing is on."""
        return None

    def connect(self) -> Connection:
        here = IPv4Address("TCP", self.address, 9464)
        return Connection(self.factory, HalfClosable(here, IPv4Address("TCP", self.address, 40000)))

    def ask(self, view: str, code: int = 200) -> Any:
        """Ask for a view by its name and parameters: those of its path, too, are given as in a query."""
        name, _, query = view.partition("?")
        fields = dict(parse_qsl(query, keep_blank_values=True))
        asked = operation(name)
        asked.check_names(fields)
        answer = self.connect().get(asked.address(fields))
        self.assertEqual((answer.code, answer.headers["content-type"]), (code, "application/json"), answer.body)
        body = json.loads(answer.body)
        asked.check_answer(code, body)
        return body

    def commit(self, group: str, topic: str, offset: int) -> None:
        self.node.ask(find_coordinator.handle, FindCoordinatorRequest(group), 0)  # creates the topic of offsets
        partition = OffsetCommitRequestPartition(0, offset, committed_metadata="")
        request = OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic(topic, [partition])])
        answer = self.node.ask(offset_commit.handle, request, 2)
        self.assertEqual(answer.topics[0].partitions[0].error_code, 0)


class TestTopics(ViewTests):
    def test_list_with_search_and_slices_of_rows(self) -> None:
        for number in range(5):
            self.node.create(f"topic-{number}", partitions=number + 1)
        self.node.create("other")
        self.node.produce("topic-1", 0, NOW, NOW)
        self.node.produce("topic-1", 1, NOW)
        found = self.ask("topics?search=topic&start=1&count=2")
        self.assertEqual((found["total"], [row["name"] for row in found["topics"]]), (5, ["topic-1", "topic-2"]))
        row = found["topics"][0]
        self.assertEqual((row["partitions"], row["partitions_here"], row["offsets"], row["messages_in"]), (2, 2, 3, 3))
        logs = [self.node.broker.partitions.find("topic-1", index).log for index in range(2)]
        self.assertEqual(row["bytes"], sum(log.size for log in logs))
        self.assertGreater(row["bytes"], 0)

    def test_rates(self) -> None:
        self.node.create("clicks", partitions=2)
        self.source.start(self.node.broker)
        self.addCleanup(self.source.stop)
        self.assertEqual(self.rates("clicks"), [None] * 3)
        self.node.clock.advance(10)
        self.assertEqual(self.rates("clicks"), [0.0] * 3)
        for index in (0, 1):
            self.node.produce("clicks", index, *[NOW] * 10)
        traffic = self.node.broker.partitions.traffic.topics["clicks"]
        traffic.bytes_out += 600
        self.node.clock.advance(2)
        self.assertEqual(self.rates("clicks"), [20 / 12, traffic.bytes_in / 12, 50.0])
        self.node.create("later")
        self.node.clock.advance(8)
        self.assertEqual(self.rates("clicks"), [2.0, traffic.bytes_in / 10, 60.0])
        self.assertEqual(self.rates("later"), [None] * 3)
        self.node.clock.advance(10)
        self.assertEqual((self.rates("clicks"), self.rates("later")), ([0.0] * 3, [0.0] * 3))
        self.source.stop()
        self.source.services = self.node.broker
        self.node.clock.advance(30)
        self.node.produce("clicks", 0, *[NOW] * 40)
        self.assertEqual(self.rates("clicks")[0], 1.0)

    def test_rates_of_a_topic_that_is_created_again(self) -> None:
        self.source.start(self.node.broker)
        self.addCleanup(self.source.stop)
        for _ in range(2):
            self.node.create("clicks")
            self.node.produce("clicks", 0, *[NOW] * 10)
            self.assertEqual(self.rates("clicks"), [None] * 3)
            self.node.clock.advance(10)
            self.assertEqual(self.rates("clicks"), [None] * 3)
            self.node.clock.advance(10)
            self.assertEqual(self.rates("clicks"), [0.0] * 3)
            now(self.node.broker.controller.delete_topic("clicks"))

    def rates(self, topic: str) -> list[float | None]:
        [row] = [each for each in self.ask("topics")["topics"] if each["name"] == topic]
        names = [f"{each}_per_second" for each in ("messages_in", "bytes_in", "bytes_out")]
        self.assertEqual([self.ask(f"topic?name={topic}")[name] for name in names], [row[name] for name in names])
        return [row[name] for name in names]

    def test_a_topic_with_partitions_and_settings(self) -> None:
        self.node.create("clicks", partitions=3, retention_ms="1000")
        self.node.produce("clicks", 2, NOW)
        found = self.ask("topic?name=clicks&start=1")
        self.assertEqual((found["total"], [each["partition"] for each in found["details"]]), (3, [1, 2]))
        self.assertEqual(found["details"][1]["high_watermark"], 1)
        self.assertEqual(found["details"][1]["replicas"], [NODE_ID])
        settings = {each["name"]: each for each in found["settings"]}
        self.assertEqual(settings["retention.ms"]["value"], "1000")
        self.assertEqual(settings["retention.ms"]["source"], "DYNAMIC_TOPIC_CONFIG")
        self.assertEqual(settings["retention.ms"]["default"], "604800000")
        self.assertEqual(settings["cleanup.policy"]["source"], "DEFAULT_CONFIG")

    def test_errors(self) -> None:
        self.ask("topic?name=nothing", 404)
        self.ask(f"topic?name={HOSTILE}", 404)
        self.assertIn("start", self.ask("topics?start=-1", 400)["error"])
        answer = self.connect().get("/api/topics?search=%ff")
        self.assertEqual((answer.code, json.loads(answer.body)["error"]), (400, "a parameter is not UTF-8"))


class TestGroups(ViewTests):
    def test_offsets_and_lag(self) -> None:
        self.node.create("clicks")
        self.node.produce("clicks", 0, *[NOW] * 10)
        self.commit("a/group", "clicks", 4)
        self.commit("other", "clicks", 10)
        found = self.ask("groups?search=group")
        self.assertEqual(
            [(row["id"], row["state"], row["offsets"], row["lag"]) for row in found["groups"]],
            [("a/group", "Empty", 1, 6)],
        )
        with patch("pylogbroker.web.group_offsets.LISTED_OFFSETS_MAX", 1):
            self.assertEqual([row["lag"] for row in self.ask("groups")["groups"]], [6, None])
        found = self.ask("group?id=a%2Fgroup")
        self.assertEqual((found["lag"], found["total"]), (6, 1))
        row = found["offsets"][0]
        self.assertEqual((row["topic"], row["offset"], row["high_watermark"], row["lag"]), ("clicks", 4, 10, 6))
        self.ask("group?id=nothing", 404)


class MemberTests(ViewTests):
    def setUp(self) -> None:
        super().setUp()
        self.node.create("clicks")
        self.commit("readers", "clicks", 0)

    def join(self, assignment: bytes, protocol_type: str = "consumer") -> None:
        """Let a member with an assignment join the group `readers`."""
        joined: list[JoinResult] = []
        groups, protocols = self.node.broker.groups, [("range", b"")]
        now_ms = self.node.broker.runtime.now_ms()
        join = Join("readers", "", "client", "/127.0.0.1", 10_000, 10_000, protocol_type, protocols)
        groups.join(join, joined.append, now_ms)
        self.node.clock.advance(4)
        [result] = joined
        sync = Sync("readers", result.generation, result.member_id, assignments={result.member_id: assignment})
        groups.sync(sync, lambda _: None, self.node.broker.runtime.now_ms())

    def member(self) -> Any:
        found = self.ask("group?id=readers")
        [row] = found["members"]
        self.assertEqual(found["member_count"], 1)
        return row


class TestMembers(MemberTests):
    def test_partitions(self) -> None:
        keys = [("clicks", 2), ("clicks", 0), ("a/b", 7)]
        self.join(encode_assignment(keys))
        row = self.member()
        self.assertEqual(row["client"], "client")
        self.assertEqual([(each["topic"], each["partition"]) for each in row["partitions"]], sorted(keys))
        with patch("pylogbroker.web.group_views.MEMBER_PARTITIONS_MAX", 2):
            self.assertEqual((len(self.member()["partitions"]), self.member()["partition_count"]), (2, 3))

    def test_a_member_without_partitions(self) -> None:
        self.join(b"")
        self.assertEqual((self.member()["partitions"], self.member()["partition_count"]), ([], 0))

    def test_unreadable_assignments_are_unknown(self) -> None:
        self.join(b"\0\1 no assignment")
        self.assertEqual((self.member()["partitions"], self.member()["partition_count"]), (None, None))

    def test_members_of_other_protocol_types(self) -> None:
        self.join(encode_assignment([("clicks", 0)]), "connect")
        self.assertIsNone(self.member()["partitions"])


class TestBrokers(ViewTests):
    def test_brokers_and_directories(self) -> None:
        self.node.create("clicks", partitions=3)
        found = self.ask("brokers")
        self.assertEqual((found["cluster_id"], found["this_broker"]), (CLUSTER_ID, NODE_ID))
        [directory] = found["log_directories"]
        self.assertGreater(directory["total_bytes"], directory["usable_bytes"])
        self.assertEqual((directory["broker"], directory["failure"], found["unanswered"]), (NODE_ID, "", []))

    def test_logs_of_a_directory(self) -> None:
        self.node.create("clicks", partitions=3)
        self.node.produce("clicks", 1, *[NOW] * 10)
        self.node.produce("clicks", 2, NOW)
        sizes = [self.node.broker.partitions.find("clicks", index).log.size for index in range(3)]
        [directory] = self.ask("brokers")["log_directories"]
        self.assertEqual((directory["logs"], directory["log_bytes"]), (3, sum(sizes)))
        query = urlencode({"broker": NODE_ID, "path": directory["path"]})
        found = self.ask(f"log-directory?{query}")
        rows = [(row["topic"], row["partition"], row["bytes"], row["is_future"]) for row in found["details"]]
        self.assertEqual(rows, [("clicks", index, sizes[index], False) for index in (1, 2, 0)])
        self.assertEqual((found["total"], found["log_bytes"]), (3, sum(sizes)))
        found = self.ask(f"log-directory?{query}&start=1&count=1")
        self.assertEqual([row["partition"] for row in found["details"]], [2])
        self.ask(f"log-directory?broker={NODE_ID}&path=/elsewhere", 404)
        self.ask("log-directory?broker=99&path=/elsewhere", 404)
        self.assertIn("path is missing", self.ask(f"log-directory?broker={NODE_ID}", 400)["error"])

    def test_a_directory_that_is_offline(self) -> None:
        [path] = self.directories
        self.node.broker.logs.directories.fail(path, "a broken disk")
        [directory] = self.ask("brokers")["log_directories"]
        self.assertEqual((directory["failure"], directory["total_bytes"]), ("a broken disk", None))
