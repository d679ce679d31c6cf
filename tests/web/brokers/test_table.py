"""Pages of brokers: the table, one broker, its log directories, and the election of preferred leaders."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch
from urllib.parse import quote

from twisted.internet.testing import StringTransport

from pylogbroker.security.acls.bindings import CLUSTER_NAME, AclOperation, AclResourceType
from pylogbroker.web.formats import size_text
from pylogbroker.web.visitors import Visitor
from pylogbroker.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from tests.broker.nodes import NODE_ID
from tests.web.test_changes import ChangeTests
from tests.web.test_cluster_views import HERE, ClusterViewTests
from tests.web.test_pages import PageTests, Parsed
from tests.web.test_site import Connection
from tests.web.test_views import NOW
from tests.web.test_visitors import AnonymousTests

CONTROLLER = "pylogbroker.web.brokers.reassignments.controller_of"


class TestBrokers(PageTests, ChangeTests):
    def test_one_broker(self) -> None:
        self.node.create("clicks", partitions=3)
        page = self.show("/brokers")
        [row] = page.rows
        self.assertIn("controller", row[0])
        self.assertEqual([" ".join(cell.split()) for cell in row[3:7]], ["serving", "3", "3", "0"])
        self.assertIn(f"/brokers/{NODE_ID}", page.links)
        self.assertNotIn("preferred", page.text)
        page = self.show(f"/brokers/{NODE_ID}")
        self.assertIn("All 3 replicas of this broker are in sync.", page.text)
        self.show("/brokers/99", 404)
        self.show("/brokers/nobody", 400)

    def test_logs_of_a_directory_by_size(self) -> None:
        self.node.create("clicks", partitions=3)
        self.node.produce("clicks", 1, *[NOW] * 50)
        [link] = [each for each in self.show(f"/brokers/{NODE_ID}").links if "log-directory" in each]
        rows = self.show(link).rows
        self.assertEqual([row[:2] for row in rows], [["clicks", "1"], ["clicks", "0"], ["clicks", "2"]])
        self.assertIn("100 %", rows[0][3])
        self.assertEqual(self.show(f"{link}&page=9").rows, rows)
        self.show(f"/brokers/{NODE_ID}/log-directory?path=/elsewhere", 404)
        old = self.connect().get(
            link.replace(f"/brokers/{NODE_ID}/log-directory?", f"/log-directory?broker={NODE_ID}&")
        )
        self.assertEqual((old.code, old.headers["location"]), (301, link))

    def test_an_offline_directory_says_why(self) -> None:
        self.node.create("clicks")
        [directory] = self.node.broker.logs.directories
        directory.failure = "the disk is gone"
        self.assertIn("Offline", self.show("/brokers").text)
        self.assertIn("the disk is gone. Its replicas are offline", self.show(f"/brokers/{NODE_ID}").text)
        path = quote(directory.path, safe="")
        self.assertIn("The directory is offline.", self.show(f"/brokers/{NODE_ID}/log-directory?path={path}").text)

    def test_nothing_is_reassigned(self) -> None:
        self.assertIn("No partition is being moved", self.show("/brokers/reassignments").text)
        self.node.create("clicks")
        answer = self.submit("brokers/reassignments", topic="clicks", partition="0")
        self.assertEqual(answer.code, 400)
        self.assertIn("Nothing was changed.", answer.body)


class TestCluster(ClusterViewTests):
    def show(self, path: str) -> Parsed:
        connection = Connection(self.factory, StringTransport(HERE, HERE))
        connection.protocol.dataReceived(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        self.cluster.run()
        return Parsed(connection.transport.value().decode())

    def test_another_replica_leads_than_the_preferred_one(self) -> None:
        self.cluster.create("orders", [1], [1, 2])
        self.assertNotIn("Preferred leaders", self.show("/brokers").text)
        self.cluster.lead("orders", 0, 2)
        page = self.show("/brokers")
        self.assertIn("1 partition is led by another replica", page.text)
        self.assertIn("/brokers/elect-leaders", page.actions)

    def test_a_reassignment_has_its_progress(self) -> None:
        self.cluster[1].produce("clicks", 0, *[NOW] * 50)
        size = self.cluster[1].broker.partitions.find("clicks", 0).log.size
        moving = OngoingPartitionReassignment(0, [1, 2], adding_replicas=[2], removing_replicas=[1])
        topics = [OngoingTopicReassignment("clicks", [moving])]
        answer, ask = ListPartitionReassignmentsResponse(topics=topics), Visitor.ask

        async def answered(visitor: Visitor, request: Any, *arguments: Any) -> Any:
            is_list = isinstance(request, ListPartitionReassignmentsRequest)
            return answer if is_list else await ask(visitor, request, *arguments)

        with patch.object(Visitor, "ask", answered), patch(CONTROLLER, return_value=1):
            page = self.show("/brokers/reassignments")
            self.assertIn("Reassignments (1)", self.show("/brokers").text)
            self.cluster.down.add(2)
            silent = self.show("/brokers/reassignments")
        [row] = page.rows
        self.assertEqual([cell.strip() for cell in row[:4]], ["clicks", "0", "1", "2"])
        self.assertEqual(row[4].strip(), f"0 %, {size_text(size)} left")
        self.assertIn("/brokers/reassignments", page.actions)
        self.assertEqual(silent.rows[0][4].strip(), "not known")
        self.assertIn("not every broker says how far it is", silent.text)

    def test_a_broker_that_does_not_answer_and_one_that_is_gone(self) -> None:
        self.cluster.down.add(2)
        self.assertEqual(self.show("/brokers").rows[1][3].strip(), "does not answer")
        self.assertIn("Broker 2 does not answer.", self.show("/brokers/2").text)
        self.cluster.update()
        gone = self.show("/brokers").rows[1]
        self.assertEqual((gone[0][0], gone[3].strip()), ("2", "gone"))
        self.assertIn("Broker 2 is not there. 1 replica is on it.", self.show("/brokers/2").text)


class TestRights(AnonymousTests, PageTests, ChangeTests):
    settings = AnonymousTests.settings

    def test_rights_on_the_cluster(self) -> None:
        for path in ("/brokers", f"/brokers/{NODE_ID}", "/brokers/reassignments"):
            self.show(path, 403)
        self.allow(AclOperation.DESCRIBE, AclResourceType.CLUSTER, CLUSTER_NAME)
        for path in ("/brokers", f"/brokers/{NODE_ID}", "/brokers/reassignments"):
            self.show(path)
        answer = self.submit("brokers/elect-leaders")
        self.assertEqual(answer.code, 403)
        self.assertIn("Nothing was changed.", answer.body)
