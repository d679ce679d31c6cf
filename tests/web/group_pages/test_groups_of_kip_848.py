"""Groups of KIP-848 on the pages: state, epochs, members, what they have and are to have."""

from __future__ import annotations

from pylogbroker.groups.consumer.requests import HeartbeatResult, MemberHeartbeat
from tests.broker.trees import now
from tests.web.test_pages import PageTests

GROUP = "readers"


class TestGroupOfKip848(PageTests):
    settings = {"offsets.topic.num.partitions": "1", "group.consumer.assignment.interval.ms": "0"}

    def setUp(self) -> None:
        super().setUp()
        self.node.create("clicks", partitions=4)
        now(self.node.broker.group_service.ensure_topic())
        self.join("a", "first", topics=frozenset({"clicks"}))

    def beat(self, member_id: str, epoch: int, **fields: object) -> HeartbeatResult:
        results: list[HeartbeatResult] = []
        beat = MemberHeartbeat(GROUP, member_id, epoch, client_host="/10.0.0.1", **fields)  # type: ignore[arg-type]
        self.node.broker.groups.consumers.heartbeat(beat, results.append, self.node.broker.runtime.now_ms())
        [result] = results
        self.assertEqual(result.error, 0, result.text)
        return result

    def join(self, member_id: str, client_id: str, **fields: object) -> None:
        self.beat(member_id, 0, client_id=client_id, rebalance_timeout_ms=60_000, owned=frozenset(), **fields)

    def join_second(self) -> None:
        """Let a second member join, by an expression, and the first one learn what it has to revoke."""
        self.join("b", "second", expression="cli.*")
        self.beat("a", 1)

    def test_a_stable_group(self) -> None:
        group = self.ask(f"group?id={GROUP}")
        self.assertEqual((group["state"], group["type"], group["assignor"]), ("Stable", "consumer", "uniform"))
        self.assertEqual((group["epoch"], group["target_epoch"]), (1, 1))
        [member] = group["members"]
        partitions = [{"topic": "clicks", "partition": index} for index in range(4)]
        self.assertEqual((member["partitions"], member["target"], member["epoch"]), (partitions, partitions, 1))
        self.assertEqual(member["subscription"], {"topics": ["clicks"], "expression": ""})
        page = self.show(f"/groups/{GROUP}")
        for text in ("consumer (KIP-848)", "It keeps up.", "clicks 0 to 3", "assigned", "0 s ago"):
            self.assertIn(text, page.text)

    def test_partitions_that_move_between_members(self) -> None:
        self.join_second()
        group = self.ask(f"group?id={GROUP}")
        self.assertEqual((group["state"], group["epoch"]), ("Reconciling", 2))
        members = {member["id"]: member for member in group["members"]}
        counts = {name: (member["partition_count"], member["target_count"]) for name, member in members.items()}
        self.assertEqual(counts, {"a": (4, 2), "b": (0, 2)})
        self.assertEqual(members["b"]["subscription"], {"topics": [], "expression": "cli.*"})
        page = self.show(f"/groups/{GROUP}")
        self.assertIn("Partitions move between members; the others are read meanwhile.", page.text)
        self.assertIn("has to revoke clicks", page.text)
        self.assertIn("waits for clicks", page.text)

    def test_lists_show_members_and_kind(self) -> None:
        [group] = self.ask("groups")["groups"]
        self.assertEqual((group["state"], group["members"]), ("Stable", 1))
        page = self.show("/groups")
        self.assertIn("consumer (KIP-848)", page.text)
        self.assertIn(GROUP, self.show("/topics/clicks/groups").text)

    def test_a_group_whose_members_have_gone(self) -> None:
        self.beat("a", -1)
        group = self.ask(f"group?id={GROUP}")
        self.assertEqual((group["state"], group["members"], group["type"]), ("Empty", [], "consumer"))
        self.assertIn("Nobody reads.", self.show(f"/groups/{GROUP}").text)

    def test_a_group_with_members_is_neither_reset_nor_deleted(self) -> None:
        for page in ("reset", "delete"):
            self.assertIn("first (10.0.0.1)", self.show(f"/groups/{GROUP}/{page}").text)
