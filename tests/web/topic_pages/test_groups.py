"""Groups that read a topic: lag, age of the oldest record that was not read, partitions without a commit."""

from __future__ import annotations

from unittest.mock import patch

from twisted.internet.testing import StringTransport

from pylogbroker.errors import ErrorCode
from pylogbroker.groups import FetchResult
from pylogbroker.records import Record, build
from pylogbroker.security.acls.bindings import AclOperation, AclResourceType
from pylogbroker.wire.consumer_protocol import encode_assignment
from tests.web.test_cluster_views import HERE
from tests.web.test_cluster_views import GroupTests as ClusterGroupTests
from tests.web.test_pages import PageTests, Parsed
from tests.web.test_site import Connection
from tests.web.test_views import NOW, MemberTests
from tests.web.test_visitors import AnonymousTests

MINUTE = 60_000
FETCH = "pylogbroker.groups.coordinator.GroupCoordinator.fetch"


class GroupsTests(PageTests):
    def text(self, query: str = "") -> str:
        return " ".join(self.show(f"/topics/clicks/groups{query}").text.split())

    def rows(self, query: str = "") -> list[list[str]]:
        """Return the cells of the table."""
        table = (
            self.connect().get(f"/topics/clicks/groups{query}").body.partition("<tbody>")[2].partition("</tbody>")[0]
        )
        lines = [row.replace("</th>", "</td>").split("</td>") for row in table.split("</tr>") if "<tr>" in row]
        return [[" ".join(Parsed(cell).text.split()) for cell in cells[:5]] for cells in lines]

    def append(self, partition: int, *ages_ms: int) -> None:
        """Append a batch for each record, which is so old."""
        log = self.node.broker.partitions.find("clicks", partition)
        for age_ms in ages_ms:
            log.append(build([Record(0, NOW - age_ms, None, b"v")]), NOW)


class TestGroups(GroupsTests):
    def setUp(self) -> None:
        super().setUp()
        self.node.create("clicks")
        self.append(0, 90 * MINUTE, 20 * MINUTE, 2000)

    def test_lag_and_age_of_the_oldest_record_that_was_not_read(self) -> None:
        for group, offset in (("all", 3), ("late", 2), ("later", 1), ("latest", 0)):
            self.commit(group, "clicks", offset)
        self.node.create("orders")
        self.commit("elsewhere", "orders", 0)
        self.assertEqual(
            self.rows(),
            [
                ["all", "Empty", "0", "0", "0 s"],
                ["late", "Empty", "0", "1", "2 s"],
                ["later", "Empty", "0", "2", "20 min"],
                ["latest", "Empty", "0", "3", "1 h 30 min"],
            ],
        )
        self.assertIn(
            "latest is farthest behind: it has 3 records to read, the oldest of them 1 h 30 min old.", self.text()
        )
        self.assertEqual([row[0] for row in self.rows("?sort=-lag")], ["latest", "later", "late", "all"])
        self.assertEqual([row[0] for row in self.rows("?sort=behind")], ["all", "late", "later", "latest"])

    def test_a_commit_beyond_the_end_hides_no_lag_of_other_partitions(self) -> None:
        self.node.create("orders", partitions=2)
        self.node.produce("orders", 1, *[NOW] * 4)
        self.commit("ahead", "orders", 9)
        self.commit("ahead", "clicks", 3)
        text = " ".join(self.show("/topics/orders/groups").text.split())
        self.assertIn("ahead is farthest behind: it has 4 records to read", text)
        self.assertIn("no commit in 1: counted from the first offset", text)
        self.assertIn("commit beyond the end in 0", text)
        self.assertIn("The group has read everything.", self.text())

    def test_offsets_that_cannot_be_read_are_not_known(self) -> None:
        self.commit("late", "clicks", 0)
        with patch(FETCH, return_value=FetchResult(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)):
            self.assertIn("Groups or their numbers are missing here.", self.text())
            self.assertIn("No groups are known to read this topic", self.text())
            text = " ".join(self.show("/topics/clicks/delete").text.split())
        self.assertIn("Groups may read it. Not every coordinator has said", text)
        self.assertNotIn("No group", text)

    def test_no_groups(self) -> None:
        self.assertIn("No groups read this topic", self.text())
        self.assertIn("pylogbroker consume clicks -g readers", self.text())

    def test_records_that_were_not_looked_at_are_not_known(self) -> None:
        self.commit("late", "clicks", 0)
        with patch("pylogbroker.web.topic_pages.groups._LOOKUPS_MAX", 0):
            self.assertEqual(self.rows()[0][3:], ["3", "not known"])


class TestPartitionsWithoutCommit(GroupsTests):
    def test_partitions_without_commit_count_from_the_first_offset(self) -> None:
        self.node.create("clicks", partitions=3)
        self.append(1, 5000, 4000)
        self.append(2, 3000)
        self.commit("readers", "clicks", 0)
        [row] = self.rows()
        self.assertEqual(row[0], "readersno commit in 1, 2: counted from the first offset")
        self.assertEqual(row[3:], ["3", "5 s"])
        with patch("pylogbroker.web.topic_pages.groups._LOOKUPS_MAX", 1):
            self.assertEqual(self.rows()[0][4], "at least 5 s")


class TestMembers(MemberTests, GroupsTests):
    def test_members_that_have_committed_nothing_read_the_topic(self) -> None:
        self.node.create("orders")
        self.commit("readers", "orders", 0)
        self.join(encode_assignment([("clicks", 0)]))
        [row] = self.rows()
        self.assertEqual(row[1:3], ["Stable", "1"])
        self.assertIn("Groups 1", self.text())


class TestOtherBrokers(ClusterGroupTests):
    """Broker 2 coordinates the only group that reads the topic."""

    def text(self, path: str) -> str:
        connection = Connection(self.factory, StringTransport(HERE, HERE))
        connection.protocol.dataReceived(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        self.cluster.run()
        return " ".join(Parsed(connection.transport.value().decode()).text.split())

    def test_a_coordinator_that_does_not_answer(self) -> None:
        self.assertIn("readers is farthest behind: it has 10 records to read", self.text("/topics/clicks/groups"))
        self.assertIn("1 group with 0 members reads it: readers.", self.text("/topics/clicks/delete"))
        self.cluster.down.add(2)
        self.assertIn("Groups may read it. Not every coordinator has said", self.text("/topics/clicks/delete"))
        self.assertIn("No groups are known to read this topic", self.text("/topics/clicks/groups"))

    def test_a_coordinator_that_is_not_there(self) -> None:
        self.cluster.down.add(2)
        self.cluster.update()
        self.assertIn("No groups are known to read this topic", self.text("/topics/clicks/groups"))
        self.assertIn("Groups may read it.", self.text("/topics/clicks/delete"))
        self.assertIn("Some groups have no coordinator now.", self.text("/groups"))
        self.assertFalse(self.ask("groups")["is_complete"])

    def test_a_coordinator_that_lists_its_groups_alone(self) -> None:
        with patch(FETCH, return_value=FetchResult(ErrorCode.NOT_COORDINATOR)):
            self.assertIn("Groups may read it.", self.text("/topics/clicks/delete"))


class TestRights(AnonymousTests, GroupsTests):
    def test_only_permitted_groups_and_no_ages_without_the_right_to_read(self) -> None:
        self.node.create("clicks")
        self.append(0, 2000)
        self.commit("secret", "clicks", 0)
        self.commit("seen", "clicks", 0)
        self.allow(AclOperation.DESCRIBE, AclResourceType.TOPIC, "clicks")
        self.allow(AclOperation.DESCRIBE, AclResourceType.GROUP, "seen")
        self.assertEqual(self.rows(), [["seen", "Empty", "0", "1", "not known"]])
        self.assertIn("User:ANONYMOUS needs READ on the topic.", self.text())
        self.allow(AclOperation.READ, AclResourceType.TOPIC, "clicks")
        self.assertEqual(self.rows()[0][4], "2 s")
