"""Share groups on the pages: the list, members, start offsets, records in flight, dead letters."""

from __future__ import annotations

from pylogbroker.broker.apis import share_group_heartbeat
from pylogbroker.security.acls.bindings import AclOperation, AclResourceType
from pylogbroker.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.broker.share_members import ACCEPT, ShareMember
from tests.broker.test_share_fetch import ShareTests
from tests.broker.trees import now
from tests.web.test_pages import PageTests
from tests.web.test_visitors import AnonymousTests

ID = "m" * 22
PARTITION = {"topic": "t", "partition": 0}


class ShareGroupTests(PageTests, ShareTests):
    """The group `g` has a member, which has acquired 6 of 10 records, and accepted 2 of them."""

    settings = {**ShareTests.settings, "offsets.topic.num.partitions": "1"}

    def setUp(self) -> None:
        super().setUp()
        now(self.node.broker.group_service.ensure_topic())
        self.permit()
        self.heartbeat(0)
        self.produce(1, batches=10)
        self.consumer = ShareMember(self.node, ID, records_max=6, batch_size=1, is_exact=True)
        self.consumer.fetch(self.p0)
        self.assertEqual(self.consumer.acknowledge(self.p0, (0, 1, ACCEPT)), 0)

    def permit(self) -> None:
        """Let the member read, if the broker has an authorizer."""

    def heartbeat(self, epoch: int) -> None:
        request = ShareGroupHeartbeatRequest("g", ID, epoch, None, ["t"])
        answer = self.node.ask(share_group_heartbeat.handle, request)
        self.assertEqual(answer.error_code, 0, answer.error_message)


class TestShareGroup(ShareGroupTests):
    def row(self, topic: str, index: int) -> list[str]:
        [row] = [row for row in self.show("/share-groups/g").rows if row[0].split()[:2] == [topic, str(index)]]
        return row

    def test_list(self) -> None:
        page = self.show("/groups")
        [row] = page.rows
        self.assertTrue(row[0].startswith("g"))
        self.assertEqual(row[2:5], ["share (KIP-932)", "1", "8"])
        self.assertIn("/share-groups/g", page.links)
        self.assertIn("t", row[8])

    def test_api(self) -> None:
        [row] = self.ask("groups")["groups"]
        self.assertEqual((row["type"], row["members"], row["lag"], row["offsets"]), ("share", 1, 8, None))
        group = self.ask("share-group?id=g&start=0&count=1")
        self.assertEqual((group["lag"], group["in_flight"], group["total"]), (8, 4, 2))
        self.assertEqual(group["partitions"], [{**PARTITION, "start_offset": 2, "lag": 8, "in_flight": 4, "error": ""}])
        [member] = group["members"]
        self.assertEqual((member["id"], member["topics"], member["partition_count"]), (ID, ["t"], 2))
        self.assertEqual(member["partitions"][0], PARTITION)
        self.assertIn("/share-groups/g", self.show("/go?to=g").links)

    def test_partitions(self) -> None:
        self.assertEqual(self.row("t", 0)[1:4], ["2", "8", "4"])
        self.assertEqual(self.row("t", 1)[1:4], ["not known", "not known", "0"])
        page = self.show("/share-groups/g")
        self.assertIn("The lag of 1 partition is not known", page.text)
        self.assertIn("/topics/t/records?at=0:2", page.links)
        self.assertEqual(self.show("/share-groups/g?sort=-flight").rows[0][3], "4")

    def test_members(self) -> None:
        page = self.show("/share-groups/g")
        [row] = [row for row in page.rows if row[0].startswith(ID)]
        self.assertEqual((row[4], row[5].strip()), ("t", "t 0, 1"))

    def test_records_in_flight_end_with_the_session(self) -> None:
        self.consumer.leave()
        self.assertEqual(self.row("t", 0)[1:4], ["2", "8", "0"])

    def test_a_group_without_members(self) -> None:
        self.heartbeat(-1)
        page = self.show("/share-groups/g")
        self.assertIn("Nobody reads.", page.text)
        self.assertIn("Empty", page.text)

    def test_dead_letters(self) -> None:
        self.assertIn("are dropped", self.show("/share-groups/g").text)
        self.node.create("dlq.t")
        self.set_group(**self.earliest, **{"errors.deadletterqueue.topic.name": "dlq.t"})
        page = self.show("/share-groups/g")
        self.assertIn("go to dlq.t", page.text)
        self.assertIn("/topics/dlq.t/records", page.links)

    def test_groups_of_another_type_or_none(self) -> None:
        self.commit("readers", "t", 1)
        for name in ("readers", "nobody"):
            self.assertIn(f"there is no share group '{name}'", self.show(f"/share-groups/{name}", 404).text)


class TestRights(AnonymousTests, ShareGroupTests):
    settings = {**AnonymousTests.settings, **ShareGroupTests.settings}

    def permit(self) -> None:
        for kind, name in ((AclResourceType.GROUP, "g"), (AclResourceType.TOPIC, "t")):
            self.allow(AclOperation.READ, kind, name)

    def test_a_group_needs_the_right_to_describe_it_and_all_that_members_subscribe_to(self) -> None:
        self.deny_all()
        self.show("/share-groups/g", 403)
        self.allow(AclOperation.DESCRIBE, AclResourceType.GROUP, "g")
        self.assertIn("the share group 'g' cannot be read", self.show("/share-groups/g", 403).text)
        [row] = self.show("/groups").rows
        self.assertEqual(row[3:5], ["not known"] * 2)
        self.allow(AclOperation.DESCRIBE, AclResourceType.TOPIC, "t")
        self.assertIn("share (KIP-932)", self.show("/share-groups/g").text)
