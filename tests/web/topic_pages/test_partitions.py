"""Partitions of a topic: what is said about them, their order, and the form that adds some."""

from __future__ import annotations

from pylogbroker.metadata.image import NO_LEADER, PartitionState
from pylogbroker.web.topic_pages.partitions import BIG_BYTES_MIN, ListedPartition, sentences_of
from tests.broker.nodes import NODE_ID
from tests.web.test_changes import ChangeTests
from tests.web.test_pages import PageTests, Parsed
from tests.web.test_views import NOW

OTHER = NODE_ID + 1


def listed(index: int, size: int | None) -> ListedPartition:
    return ListedPartition(index, PartitionState(1, (1, 2), (1, 2)), 0, 1, size, None, "", "")


def said(*sizes: int | None) -> str:
    rows = [listed(index, size) for index, size in enumerate(sizes)]
    return " ".join(f"{sentence.title} {sentence.text}" for sentence in sentences_of(rows, {}, 1))


def test_a_partition_that_is_much_bigger_is_named() -> None:
    middle = BIG_BYTES_MIN // 8
    assert "Partition 2 is much bigger than the others. It has 64.0 MiB, 8 times as much as the middle one" in said(
        middle, middle, BIG_BYTES_MIN
    )
    assert "No partition is too big. They have 1 B to 8 MiB." in said(1, 1, middle)
    assert "big" not in said(None, middle)
    assert "The 2 partitions have all replicas in sync." in said(None, middle)


class TestPartitions(PageTests):
    def rows(self, query: str = "") -> list[str]:
        """Return the numbers of the partitions in their order."""
        links = self.show(f"/topics/orders/partitions{query}").links
        found = [link.partition("records?partition=")[2] for link in links]
        return [number for number in found if number]

    def text(self) -> str:
        return " ".join(self.show("/topics/orders/partitions").text.split())

    def test_heads_sort_all_partitions(self) -> None:
        self.node.create("orders", partitions=3)
        for index, records in enumerate((5, 9, 2)):
            self.node.produce("orders", index, *[NOW] * records)
        for sort, expected in (
            ("", "012"),
            ("-partition", "210"),
            ("-records", "102"),
            ("size", "201"),
            ("-end", "102"),
        ):
            self.assertEqual("".join(self.rows(f"?sort={sort}" if sort else "")), expected, sort)
        self.assertIn("sort must be one of", self.show("/topics/orders/partitions?sort=x", 400).text)

    def test_long_tables_have_pages(self) -> None:
        self.node.create("orders", partitions=450)
        page = self.show("/topics/orders/partitions?sort=-partition&page=2")
        self.assertIn("201 to 400 of 450", page.text)
        self.assertIn("/topics/orders/partitions?page=3&sort=-partition", page.links)
        self.assertEqual(self.rows("?sort=-partition&page=3")[-1], "0")

    def test_odd_states_are_named_above_the_table(self) -> None:
        self.node.create("orders", partitions=4, min_insync_replicas="2")
        for index in range(4):
            self.node.change_partition("orders", index, replicas=(NODE_ID, OTHER), isr=(NODE_ID, OTHER))
        self.assertIn("The 4 partitions have all replicas in sync.", self.text())
        self.node.change_partition("orders", 1, leader=NO_LEADER)
        self.node.change_partition("orders", 2, isr=(NODE_ID,))
        text = self.text()
        self.assertIn("Partition 1 has no leader. Clients can neither write nor read there.", text)
        self.assertIn(f"Start a broker that has the replicas: {NODE_ID}, {OTHER}.", text)
        self.assertIn("Partition 2 has replicas that are not in sync.", text)
        self.assertIn("Partition 2 rejects writes with acks=all. It has fewer replicas in sync than", text)
        self.assertEqual(self.rows("?sort=-state")[:2], ["1", "2"])
        body = self.connect().get("/topics/orders/partitions").body
        self.assertIn('<span class="badge bad">no leader</span>', body)
        self.assertIn('<span class="badge bad">1 in sync, 2 needed</span>', body)
        self.assertEqual(body.count(">in sync</td>"), 2)

    def test_a_reassignment_shows_where_the_partition_goes(self) -> None:
        self.node.create("orders", partitions=2)
        moving = {"replicas": (NODE_ID, OTHER), "isr": (NODE_ID,), "adding": (OTHER,), "removing": (NODE_ID,)}
        self.node.change_partition("orders", 1, **moving)
        self.assertIn("Partition 1 is being moved to other brokers.", self.text())
        self.assertIn(f"moves to {OTHER}", self.text())
        self.assertNotIn("not in sync", self.text())
        self.assertIn("The 2 partitions have their leader.", self.text())

    def test_a_reassignment_with_too_few_replicas_in_sync_rejects_writes(self) -> None:
        self.node.create("orders", partitions=2, min_insync_replicas="2")
        third = OTHER + 1
        moving = {"replicas": (NODE_ID, OTHER, third), "isr": (NODE_ID,), "adding": (third,), "removing": (OTHER,)}
        self.node.change_partition("orders", 1, **moving)
        text = self.text()
        self.assertIn("Partitions 0, 1 reject writes with acks=all. They have fewer replicas in sync than", text)
        self.assertIn(f"Partition 1 has replicas that are not in sync. Broker {OTHER} is missing", text)
        self.assertIn("Partition 1 is being moved to other brokers. Clients notice nothing of the move.", text)
        self.assertIn(f"1 in sync, 2 needed, moves to {NODE_ID}, {third}", text)
        self.assertNotIn("Writes go on", text)

    def test_a_reassignment_names_old_replicas_that_are_not_in_sync(self) -> None:
        self.node.create("orders")
        third = OTHER + 1
        moving = {"replicas": (NODE_ID, OTHER, third), "isr": (NODE_ID,), "adding": (third,), "removing": (OTHER,)}
        self.node.change_partition("orders", 0, **moving)
        self.assertIn(f"{OTHER} not in sync, moves to {NODE_ID}, {third}", self.text())
        self.assertIn("Writes go on: min.insync.replicas is 1.", self.text())

    def test_partitions_that_nobody_answers_for_are_not_known(self) -> None:
        self.node.create("orders")
        self.node.add_partition("orders", 1, NO_LEADER)
        body = self.connect().get("/topics/orders/partitions").body
        self.assertEqual(body.count(">not known<"), 4)  # first, end, records, size


class TestAdding(ChangeTests):
    def test_partitions_are_added(self) -> None:
        self.node.create("orders", partitions=2)
        self.assertIn("more than 2", self.connect().get("/topics/orders/partitions?add=true").body)
        answer = self.submit("topics/orders/partitions", count="5")
        self.assertEqual((answer.code, answer.headers["location"]), (303, "/topics/orders/partitions"))
        self.assertEqual(self.ask("topic?name=orders")["partitions"], 5)

    def test_wrong_numbers_stay_in_the_field(self) -> None:
        self.node.create("orders", partitions=2)
        for count, expected in (
            ("2", "Write a number above 2."),
            ("", "Write a number above 2."),
            ("many", "Write a number above 2."),
            ("99999999999", "Write a number above 2."),
            ("9" * 5000, "Write a number above 2."),
            ("20000", "10000"),
        ):
            answer = self.submit("topics/orders/partitions", count=count)
            self.assertEqual(answer.code, 400)
            self.assertIn(expected, Parsed(answer.body).text)
            self.assertIn(f'value="{count}"', answer.body)
            self.assertIn('aria-invalid="true"', answer.body)
        self.assertEqual(self.ask("topic?name=orders")["partitions"], 2)
        self.assertEqual(self.submit("topics/nothing/partitions", count="3").code, 404)
