"""The page of one broker of a cluster: it shows and changes what other brokers lead."""

from __future__ import annotations

import json
from contextlib import ExitStack
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch
from urllib.parse import parse_qsl, urlencode

import attrs
from twisted.internet.address import IPv4Address
from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from pylogbroker.broker.apis import offset_commit
from pylogbroker.errors import ErrorCode
from pylogbroker.groups.consumer.requests import HeartbeatResult, MemberHeartbeat
from pylogbroker.security.acls.bindings import (
    CLUSTER_NAME,
    AccessControlEntry,
    AclOperation,
    AclPermission,
    AclResourceType,
    ResourcePattern,
)
from pylogbroker.web.pages import PageRoot
from pylogbroker.web.site import AllowedHosts, CheckedSite
from pylogbroker.web.views import Source
from pylogbroker.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from pylogbroker.wire.messages.create_topics import CreateTopicsRequest
from pylogbroker.wire.messages.delete_topics import DeleteTopicsRequest
from pylogbroker.wire.messages.describe_groups import DescribeGroupsRequest
from pylogbroker.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from pylogbroker.wire.messages.fetch import FetchRequest
from pylogbroker.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pylogbroker.wire.messages.offset_fetch import OffsetFetchRequest
from pylogbroker.wire.messages.produce import ProduceRequest
from tests.broker.members import Members, opened_members
from tests.broker.transactions import Producer
from tests.broker.trees import now
from tests.web.described import operation
from tests.web.test_site import Connection, factory_of
from tests.web.test_views import NOW

HERE = IPv4Address("TCP", "127.0.0.1", 9464)
CLIENT_ID = "broker-1-page"


class ClusterViewTests(SynchronousTestCase):
    """Broker 1 serves the page. Of the topic `clicks`, it leads partition 0, and broker 2 partition 1."""

    settings: dict[str, str] = {}

    def setUp(self) -> None:
        stack = self.enterContext(ExitStack())
        directories = [stack.enter_context(TemporaryDirectory()) for _ in range(2)]
        self.cluster: Members = stack.enter_context(opened_members(directories, self.settings))
        self.cluster.create("clicks", [1, 2])
        self.sources = {broker_id: Source(node.broker) for broker_id, node in self.cluster.nodes.items()}
        self.factory = factory_of(CheckedSite(Clock(), PageRoot(self.sources[1]), AllowedHosts([])), 100)

    def request(self, name: str, fields: dict[str, Any]) -> tuple[int, Any]:
        asked = operation(name)
        if asked.method in ("GET", "DELETE"):
            path, body = asked.address(fields), b""
        else:
            path, rest = asked.request(fields)
            body = json.dumps(rest).encode()
        connection = Connection(self.factory, StringTransport(HERE, HERE))
        head = f"{asked.method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        connection.protocol.dataReceived(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        self.cluster.run()
        lines, _, answer = connection.transport.value().partition(b"\r\n\r\n")
        code, found = int(lines.split()[1]), json.loads(answer)
        asked.check_answer(code, found)
        return code, found

    def ask(self, path: str, expected: int = 200) -> Any:
        name, _, query = path.partition("?")
        code, found = self.request(name, dict(parse_qsl(query)))
        self.assertEqual(code, expected, found)
        return found

    def change(self, name: str, expected: int = 200, /, **fields: Any) -> Any:
        code, found = self.request(name, fields)
        self.assertEqual(code, expected, found)
        return found

    def asked(self, request: type[Any]) -> list[int]:
        """Return the brokers that got requests of a type for the page."""
        return [broker_id for client_id, broker_id, _ in self.cluster.sent(request) if client_id == CLIENT_ID]


class RightsTests(ClusterViewTests):
    """Broker 2 trusts broker 1, which decides what the visitor may do."""

    settings = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"}

    def setUp(self) -> None:
        super().setUp()
        for kind in (AclResourceType.TOPIC, AclResourceType.GROUP):
            self.allow(AclOperation.ALL, kind, "*", 2)

    def allow(self, operation: AclOperation, kind: AclResourceType, name: str, broker_id: int = 1) -> None:
        authorizer = self.cluster[broker_id].broker.authorizer
        assert authorizer is not None
        entry = AccessControlEntry("User:ANONYMOUS", "*", operation, AclPermission.ALLOW)
        now(authorizer.acls.add(ResourcePattern(kind, name), frozenset([entry]), "User:admin"))


class TestProduce(ClusterViewTests):
    def test_the_leader_writes_the_record(self) -> None:
        for index in (0, 1):
            done = self.change("write-records", topic="clicks", partition=index, key="k", value="v")
            self.assertEqual((done["partition"], done["offset"]), (index, 0))
            log = self.cluster[index + 1].broker.partitions.find("clicks", index).log
            self.assertEqual(log.log_end_offset, 1)
        self.assertEqual(self.asked(ProduceRequest), [2])

    def test_a_leader_that_does_not_answer(self) -> None:
        self.cluster.down.add(2)
        answer = self.change("write-records", 503, topic="clicks", partition=1, value="v")
        self.assertIn("broker 2 does not answer: it is down", answer["error"])
        self.cluster.down.clear()
        self.change("write-records", topic="clicks", partition=1, value="v")

    def test_a_partition_without_a_leader(self) -> None:
        self.cluster.lead("clicks", 1, -1, orders=False)
        self.assertIn("no leader", self.change("write-records", 503, topic="clicks", partition=1, value="v")["error"])
        self.change("write-records", 404, topic="clicks", partition=2, value="v")


class TestRecords(ClusterViewTests):
    def setUp(self) -> None:
        super().setUp()
        for number in range(5):
            self.cluster[2].produce("clicks", 1, NOW + number * 1000)

    def offsets(self, query: str) -> list[int]:
        return [row["offset"] for row in self.ask(f"records?topic=clicks&partition=1&{query}")["records"]]

    def test_records_of_another_leader(self) -> None:
        found = self.ask("records?topic=clicks&partition=1&offset=3")
        self.assertEqual((found["log_start_offset"], found["high_watermark"], found["next_offset"]), (0, 5, 5))
        self.assertEqual(
            [(row["offset"], row["value"]["text"]) for row in found["records"]], [(3, "value"), (4, "value")]
        )
        self.assertEqual(self.offsets("last=1"), [4])
        self.assertEqual(self.offsets(f"time={NOW + 1500}"), [2, 3, 4])
        self.assertEqual(self.offsets("offset=1&count=2"), [1, 2])
        self.assertEqual(self.offsets("offset=5"), [])
        self.assertEqual(self.offsets("offset=0&search=nothing"), [])

    def test_a_leader_that_does_not_answer(self) -> None:
        self.cluster.down.add(2)
        self.assertIn("broker 2", self.ask("records?topic=clicks&partition=1", 503)["error"])
        self.ask("records?topic=clicks&partition=0")

    def test_live(self) -> None:
        viewer = Connection(self.factory, StringTransport(HERE, HERE))
        viewer.protocol.dataReceived(b"GET /api/topics/clicks/preview/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        self.cluster.run()
        self.cluster[1].produce("clicks", 0, NOW)
        self.cluster.down.add(2)
        self.cluster.run(2.0)
        self.assertIn(b"id: 0:1,1:5", viewer.transport.value())
        self.cluster.down.clear()
        self.cluster[2].produce("clicks", 1, NOW)
        self.cluster.run(2.0)
        self.assertIn(b"id: 0:1,1:6", viewer.transport.value())
        viewer.protocol.connectionLost(Failure(ConnectionDone()))


class GroupTests(ClusterViewTests):
    """Broker 2 coordinates the group `readers`, which has offsets of both partitions of `clicks`."""

    def setUp(self) -> None:
        super().setUp()
        self.cluster.create("__consumer_offsets", [2])
        for index in (0, 1):
            self.cluster[index + 1].produce("clicks", index, *[NOW] * 10)
        self.commit("clicks", 4, 6)

    def commit(self, topic: str, *offsets: int) -> None:
        rows = [OffsetCommitRequestPartition(index, offset) for index, offset in enumerate(offsets)]
        request = OffsetCommitRequest("readers", topics=[OffsetCommitRequestTopic(topic, rows)])
        answer = self.cluster[2].ask(offset_commit.handle, request, 2)
        self.assertEqual({each.error_code for each in answer.topics[0].partitions}, {0})

    def offsets(self) -> list[tuple[Any, ...]]:
        rows = self.ask("group?id=readers")["offsets"]
        return [(row["partition"], row["offset"], row["high_watermark"], row["lag"]) for row in rows]


class TestGroups(GroupTests):
    def test_data_of_another_coordinator(self) -> None:
        found = self.ask("groups")
        self.assertTrue(found["is_complete"])
        [row] = found["groups"]
        self.assertEqual((row["id"], row["state"], row["coordinator"]), ("readers", "Empty", 2))
        self.assertEqual((row["members"], row["offsets"], row["lag"]), (0, 2, 10))
        self.assertEqual(self.ask("groups?search=other")["total"], 0)
        found = self.ask("group?id=readers")
        self.assertEqual((found["coordinator"], found["lag"], found["total"]), (2, 10, 2))
        self.assertEqual(self.offsets(), [(0, 4, 10, 6), (1, 6, 10, 4)])
        self.ask("group?id=nobody", 404)

    def test_lag_of_partitions_that_nobody_answers_for(self) -> None:
        self.cluster.lead("clicks", 1, -1, orders=False)
        self.assertEqual(self.offsets(), [(0, 4, 10, 6), (1, 6, None, None)])

    def test_the_coordinator_samples_lags(self) -> None:
        for broker_id, source in self.sources.items():
            source.start(self.cluster[broker_id].broker)
            self.addCleanup(source.stop)
        self.cluster.run()
        self.assertIsNone(self.ask("group?id=readers")["history"])
        [sample] = self.sources[2].samples.group_lags.of("readers")
        self.assertEqual((sample.time_ms, sample.lag), (NOW, 10))
        self.assertEqual(self.sources[1].samples.group_lags.of("readers"), [])

    def listed(self) -> tuple[Any, Any]:
        [row] = self.ask("groups")["groups"]
        return row["offsets"], row["lag"]

    def test_lags_of_a_list(self) -> None:
        self.cluster.lead("clicks", 1, -1, orders=False)
        self.assertEqual(self.listed(), (2, 6))
        self.cluster.newest[OffsetFetchRequest.api_key] = 7
        self.assertEqual(self.listed(), (None, None))
        self.cluster.newest.clear()
        with patch("pylogbroker.web.group_offsets.LISTED_OFFSETS_MAX", 1):
            self.assertEqual(self.listed(), (None, None))

    def test_a_coordinator_that_does_not_answer(self) -> None:
        self.cluster.down.add(2)
        found = self.ask("groups")
        self.assertEqual((found["is_complete"], found["groups"]), (False, []))
        self.ask("group?id=readers", 503)

    def test_reset(self) -> None:
        preview = self.ask("preview-reset?id=readers&to=shift&by=3")
        self.assertEqual(
            [(row["before"], row["after"], row["lag"]) for row in preview["offsets"]], [(4, 7, 3), (6, 9, 1)]
        )
        self.assertEqual(self.change("reset-group", id="readers", to="shift", by=3)["offsets"], preview["offsets"])
        self.assertEqual(self.offsets(), [(0, 7, 10, 3), (1, 9, 10, 1)])


class GroupOfKip848Tests(ClusterViewTests):
    """A group of KIP-848, which broker 2 coordinates."""

    def setUp(self) -> None:
        super().setUp()
        self.cluster.create("__consumer_offsets", [2])
        for member_id, names in (("a", {"clicks"}), ("b", {"clicks", "secret"})):
            self.beat(MemberHeartbeat("readers", member_id, 0, None, None, 60_000, frozenset(names), owned=frozenset()))
        self.beat(MemberHeartbeat("readers", "a", 1))

    def beat(self, heartbeat: MemberHeartbeat) -> None:
        results: list[HeartbeatResult] = []
        broker = self.cluster[2].broker
        broker.groups.consumers.heartbeat(heartbeat, results.append, broker.runtime.now_ms())
        self.cluster.run()
        [result] = results
        self.assertEqual(result.error, ErrorCode.NONE, result.text)

    def shown(self) -> dict[str, Any]:
        group = self.ask("group?id=readers")
        self.assertEqual((group["type"], group["state"], group["epoch"]), ("consumer", "Reconciling", 2))
        return {member["id"]: member for member in group["members"]}


class TestGroupOfKip848(GroupOfKip848Tests):
    settings = {"group.consumer.assignment.interval.ms": "0"}

    def test_the_coordinator_describes_it(self) -> None:
        members = self.shown()
        counts = {name: (member["partition_count"], member["target_count"]) for name, member in members.items()}
        self.assertEqual(counts, {"a": (2, 1), "b": (0, 1)})
        self.assertEqual(members["b"]["subscription"], {"topics": ["clicks", "secret"], "expression": ""})
        [row] = self.ask("groups")["groups"]
        self.assertEqual((row["members"], row["coordinator"]), (2, 2))

    def test_a_coordinator_that_does_not_know_such_groups(self) -> None:
        self.cluster.newest[ConsumerGroupDescribeRequest.api_key] = -1
        self.ask("group?id=readers", 404)


class TestRightsOnGroupOfKip848(GroupOfKip848Tests, RightsTests):
    settings = {**RightsTests.settings, **TestGroupOfKip848.settings}

    def test_topics_are_hidden(self) -> None:
        self.ask("group?id=readers", 403)
        self.allow(AclOperation.DESCRIBE, AclResourceType.GROUP, "readers")
        self.assertEqual(self.shown()["a"]["partitions"], [])
        self.allow(AclOperation.DESCRIBE, AclResourceType.TOPIC, "clicks")
        members = self.shown()
        self.assertEqual(len(members["a"]["partitions"]), 2)
        self.assertEqual(members["b"]["subscription"]["topics"], ["clicks"])


class TestShareGroups(ClusterViewTests):
    def test_a_broker_that_does_not_offer_them(self) -> None:
        found = self.ask("share-group?id=workers", 404)
        self.assertIn("does not offer ShareGroupDescribe, by api.versions.release", found["error"])


class TestLogDirectories(ClusterViewTests):
    def test_log_directories_of_all_brokers(self) -> None:
        self.cluster[2].produce("clicks", 1, NOW)
        found = self.ask("brokers")
        first, second = found["log_directories"]
        self.assertEqual([(each["broker"], each["logs"]) for each in (first, second)], [(1, 1), (2, 1)])
        size = self.cluster[2].broker.partitions.find("clicks", 1).log.size
        self.assertEqual((first["log_bytes"], second["log_bytes"], found["unanswered"]), (0, size, []))
        query = urlencode({"broker": 2, "path": second["path"]})
        [row] = self.ask(f"log-directory?{query}")["details"]
        self.assertEqual((row["topic"], row["partition"], row["bytes"]), ("clicks", 1, size))
        self.cluster.down.add(2)
        found = self.ask("brokers")
        self.assertEqual(([each["broker"] for each in found["log_directories"]], found["unanswered"]), ([1], [2]))
        self.ask(f"log-directory?{query}", 503)


class TestTransactions(ClusterViewTests):
    def test_data_of_another_coordinator(self) -> None:
        self.cluster.create("__transaction_state", [2])
        producer = Producer(self.cluster[2], "p")
        self.assertEqual(producer.init(), ErrorCode.NONE)
        self.assertEqual(producer.add(("clicks", 1)), [ErrorCode.NONE])
        self.assertEqual(producer.send(b"v", topic="clicks", index=1), ErrorCode.NONE)
        [row] = self.ask("transactions")["transactions"]
        self.assertEqual((row["id"], row["coordinator"], row["partition_count"]), ("p", 2, 1))
        self.assertEqual(self.ask("transaction?id=p")["partitions"], [{"topic": "clicks", "partition": 1}])
        [row] = self.ask("producers?topic=clicks&partition=1")["producers"]
        self.assertEqual((row["producer_id"], row["transaction_start"]), (producer.producer_id, 0))
        self.change("fence-producer", id="p")
        self.assertEqual(self.ask("transactions")["total"], 0)
        self.assertEqual(self.ask("producers?topic=clicks&partition=1")["producers"][0]["transaction_start"], None)

    def test_a_coordinator_that_is_not_there(self) -> None:
        self.cluster.create("__transaction_state", [2])
        self.assertTrue(self.ask("transactions")["is_complete"])
        self.cluster.lead("__transaction_state", 0, -1, orders=False)
        self.assertFalse(self.ask("transactions")["is_complete"])


class TestGroupRights(GroupTests, RightsTests):
    def test_groups_and_topics_are_hidden(self) -> None:
        self.assertEqual(self.ask("groups")["total"], 0)
        self.ask("group?id=readers", 403)
        self.assertEqual((self.asked(DescribeGroupsRequest), self.asked(OffsetFetchRequest)), ([], []))
        self.allow(AclOperation.DESCRIBE, AclResourceType.GROUP, "readers")
        [row] = self.ask("groups")["groups"]
        self.assertEqual((row["id"], row["offsets"], row["lag"]), ("readers", 0, 0))
        self.assertEqual(self.offsets(), [])
        self.allow(AclOperation.DESCRIBE, AclResourceType.TOPIC, "clicks")
        self.assertEqual(self.offsets(), [(0, 4, 10, 6), (1, 6, 10, 4)])
        self.change("reset-group", 403, id="readers", to="latest")
        self.assertEqual(self.asked(OffsetCommitRequest), [])


class TestRights(RightsTests):
    def test_a_record_needs_the_right_to_write(self) -> None:
        for right in (AclOperation.DESCRIBE, AclOperation.READ):
            self.change("write-records", 403, topic="clicks", partition=1, value="v")
            self.allow(right, AclResourceType.TOPIC, "clicks")
        self.change("write-records", 403, topic="clicks", partition=1, value="v")
        self.assertEqual(self.asked(ProduceRequest), [])
        self.allow(AclOperation.WRITE, AclResourceType.TOPIC, "clicks")
        self.change("write-records", topic="clicks", partition=1, value="v")
        self.assertEqual(self.asked(ProduceRequest), [2])

    def test_records_need_the_right_to_read(self) -> None:
        self.allow(AclOperation.DESCRIBE, AclResourceType.TOPIC, "clicks")
        self.ask("records?topic=clicks&partition=1", 403)
        self.assertEqual(self.asked(FetchRequest), [])
        self.allow(AclOperation.READ, AclResourceType.TOPIC, "clicks")
        self.ask("records?topic=clicks&partition=1")

    def test_log_directories_need_a_right_on_the_cluster(self) -> None:
        for path in ("brokers", "log-directory?broker=2&path=/data"):
            self.ask(path, 403)
        self.assertEqual(self.asked(DescribeLogDirsRequest), [])
        self.allow(AclOperation.DESCRIBE, AclResourceType.CLUSTER, CLUSTER_NAME)
        self.assertEqual(self.ask("brokers")["unanswered"], [])


class TestController(ClusterViewTests):
    def test_topic_changes_go_to_the_controller(self) -> None:
        self.assertIn("no controller", self.change("create-topic", 503, name="orders")["error"])
        self.be_controller(2)
        self.assertIn("not the controller", self.change("create-topic", 503, name="orders")["error"])
        self.change("delete-topic", 503, name="clicks")
        self.assertEqual((self.asked(CreateTopicsRequest), self.asked(DeleteTopicsRequest)), ([2], [2]))

    def be_controller(self, broker_id: int) -> None:
        metadata = self.cluster[1].broker.metadata
        metadata.image = attrs.evolve(metadata.image, controller_id=broker_id)
