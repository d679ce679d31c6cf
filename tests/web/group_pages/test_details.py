"""The page of one group: the verdict, figures, partitions and members."""

from __future__ import annotations

from unittest.mock import patch

from pylogbroker.errors import ErrorCode
from pylogbroker.groups import Heartbeat
from pylogbroker.security.acls.bindings import AclOperation, AclResourceType
from pylogbroker.web.group_lags import INTERVAL_SECONDS
from pylogbroker.web.group_pages.partitions import GroupPartition, ShownMember, ranges_text
from pylogbroker.web.group_pages.verdicts import GroupProgress, GroupVerdict, verdict_of
from pylogbroker.wire.consumer_protocol import encode_assignment
from tests.web.test_pages import PageTests, Parsed
from tests.web.test_views import NOW, MemberTests
from tests.web.test_visitors import AnonymousTests

_COLUMNS = 9
MEMBER = ShownMember("m-1", None, "billing-2", "10.0.0.14", (("payments", 7),), None)
STUCK = GroupPartition("payments", 7, 100, 400, True, MEMBER, commit_ms=NOW - 20 * 60_000)
FRESH = GroupPartition("payments", 8, 100, 900, True, MEMBER, commit_ms=NOW - 1_000)


def judge(
    lag: int | None,
    growth: int | None = None,
    behind_ms: int | None = None,
    state: str = "Stable",
    *,
    is_here: bool = True,
    without_commit: int = 0,
    unknown: int = 0,
) -> GroupVerdict:
    progress = GroupProgress(state, 1, is_here, lag, without_commit, growth, behind_ms, False, unknown)
    return verdict_of(progress, [STUCK, FRESH], NOW)


def test_verdicts() -> None:
    assert (judge(0).kind, judge(0).title) == ("ok", "It keeps up.")
    assert judge(10, 5, 12_000).detail == "The oldest unread record is 12 s old."
    growing = judge(1100, 40, 120_000)
    assert (growing.kind, growing.title) == ("bad", "It will not catch up at this rate.")
    assert growing.detail == "1,100 records wait, 40 more a minute."
    assert judge(1100, 0, 120_000).detail == "Its lag stays at 1,100 records."
    assert judge(1100, -100, 120_000).title == "It catches up in about 11 min."
    assert judge(None).title == "It is not known whether it keeps up."
    assert judge(0, unknown=1).title == "It is not known whether it keeps up."
    assert judge(0, state="Empty", unknown=1).detail == "Its lag is not known."
    assert "after a minute" in judge(5, None, 120_000).detail
    assert "Broker 1 coordinates" in judge(5, None, None, is_here=False).detail
    assert judge(5, 5, state="PreparingRebalance").title == "It rebalances."
    assert (judge(1, state="Empty").title, judge(0, state="Empty").kind) == ("Nobody reads.", "")
    assert "and 1 record waits" in judge(1, state="Empty").detail
    assert "and 8 records wait" in judge(1, state="Empty", without_commit=7).detail


def test_a_partition_without_a_commit_for_long_holds_the_group() -> None:
    assert judge(1100, 40, 120_000).held == STUCK  # the other one has more lag, and commits
    assert judge(0).held is None


def test_ranges_of_partitions() -> None:
    assert ranges_text([]) == ""
    assert ranges_text([3]) == "3"
    assert ranges_text([0, 1, 2, 4, 5, 8]) == "0 to 2, 4, 5, 8"


class TestGroup(PageTests, MemberTests):
    def setUp(self) -> None:
        super().setUp()
        self.source.start(self.node.broker)
        self.addCleanup(self.source.stop)

    def group(self, query: str = "", group_id: str = "readers") -> Parsed:
        return self.show(f"/groups/{group_id}{query}")

    def wait(self, samples: int = 1) -> None:
        for _ in range(samples):
            self.node.clock.advance(INTERVAL_SECONDS)

    def test_old_addresses_lead_here(self) -> None:
        for old, new in (
            ("/group?id=a%2Fb", "/groups/a%2Fb"),
            ("/group", "/groups"),
            ("/reset-group?id=a&to=shift&by=-3", "/groups/a/reset?to=shift&by=-3"),
            ("/reset-group", "/groups"),
        ):
            answer = self.connect().get(old)
            self.assertEqual((answer.code, answer.headers["location"]), (301, new))

    def test_an_unknown_group(self) -> None:
        self.assertIn("there is no group", self.show("/groups/nobody", 404).text)

    def test_a_group_without_members(self) -> None:
        self.node.produce("clicks", 0, *[NOW] * 10)
        page = self.group()
        self.assertIn("Nobody reads. The group has no members, and 10 records wait.", page.text)
        [row] = page.rows[-1:]
        self.assertEqual([cell.strip() for cell in row[1:5]], ["none", "0", "10", "10"])
        self.assertIn("/topics/clicks/records?at=0:0", page.links)

    def test_a_group_that_falls_behind_names_who_holds_it(self) -> None:
        self.join(encode_assignment([("clicks", 0)]))
        self.node.produce("clicks", 0, *[NOW] * 10)
        for _ in range(4):
            self.node.produce("clicks", 0, *[NOW] * 100)
            for seconds in (9, 9, 9, 3):  # the member's session lasts 10 s
                self.node.clock.advance(seconds)
                self.heartbeat()
        page = self.group()
        self.assertIn("It will not catch up at this rate. 410 records wait, 205 more a minute.", page.text)
        self.assertIn("Member client (127.0.0.1) holds clicks 0 and has not committed there for 2 min", page.text)
        self.assertIn("Look at the record it has next, 0", page.text)
        self.assertIn("falls behind", page.text)
        self.assertIn("0 s ago", page.text)

    def heartbeat(self) -> None:
        [group] = self.node.broker.groups.groups()
        [member] = group.members
        beat = Heartbeat("readers", group.generation, member)
        self.assertEqual(self.node.broker.groups.heartbeat(beat, self.node.broker.runtime.now_ms()), ErrorCode.NONE)

    def test_partitions_without_a_commit_are_counted_apart(self) -> None:
        self.node.create("orders", partitions=3)
        for index in range(3):
            self.node.produce("orders", index, *[NOW] * 7)
        self.join(encode_assignment([("clicks", 0), ("orders", 1)]))
        page = self.group()
        self.assertIn("4, 3 without a commit", page.text)
        self.assertIn("and 21 without a commit", page.text)
        rows = {row[0].partition("client")[0].partition("no member")[0].strip(): row for row in page.rows}
        self.assertEqual([cell.strip() for cell in rows["orders 1"][1:5]], ["client", "no commit", "7", "7"])
        self.assertEqual(rows["orders 2"][1].strip(), "none")

    def test_an_offset_beyond_the_end_has_a_negative_lag(self) -> None:
        self.node.produce("clicks", 0, *[NOW] * 10)
        self.commit("readers", "clicks", 15)
        page = self.group()
        self.assertIn("\N{MINUS SIGN}5 beyond the end", page.text)
        self.assertNotIn("records?at=", " ".join(page.links))

    def test_a_partition_without_a_leader_is_not_known_in_its_row(self) -> None:
        self.node.create("orders")
        self.node.produce("orders", 0, NOW)
        self.commit("readers", "orders", 0)

        async def known_ends(*_: object) -> dict[tuple[str, int], int]:
            return {("orders", 0): 1}

        with patch("pylogbroker.web.group_pages.partitions.ends_of", side_effect=known_ends):
            page = self.group("?sort=lag")
        self.assertEqual([row[4].strip() for row in page.rows[-2:]], ["not known", "1"])
        self.assertIn("The lag of 1 partition is not known", page.text)

    def test_partitions_with_lag_and_their_order(self) -> None:
        self.node.create("orders")
        self.node.produce("orders", 0, NOW)
        self.commit("readers", "orders", 0)
        self.assertEqual(self.topics("?with_lag=true"), ["orders"])
        self.assertEqual(self.topics("?sort=-lag"), ["orders", "clicks"])
        self.assertIn("sort must be one of", self.show("/groups/readers?sort=colour", 400).text)

    def topics(self, query: str) -> list[str]:
        return [row[0].partition(" ")[0] for row in self.group(query).rows if len(row) == _COLUMNS]

    def test_a_chart_and_a_table(self) -> None:
        self.node.produce("clicks", 0, *[NOW] * 10)
        self.wait(2)
        page = self.group()
        self.assertIn("from 0 to 10", page.text)
        self.assertEqual(page.tags.count("polyline"), 2)  # the line, and the area below it
        self.assertIn("22:13:50", page.text)

    def test_idle_members(self) -> None:
        self.join(b"")
        self.assertIn("idle, no partition", self.group().text)

    def test_members_of_other_kinds_have_no_known_partitions(self) -> None:
        self.join(b"", "connect")
        page = self.group()
        self.assertEqual(page.rows[-1][4].strip(), "not known")
        self.assertIn("connect", page.text)


class TestRights(AnonymousTests, PageTests):
    def test_a_group_that_the_visitor_may_not_see(self) -> None:
        self.node.create("clicks")
        self.node.create("closed")
        self.commit("readers", "clicks", 0)
        self.commit("readers", "closed", 0)
        self.assertIn("no right to DESCRIBE on the group readers", self.show("/groups/readers", 403).text)
        self.allow(AclOperation.DESCRIBE, AclResourceType.GROUP, "readers")
        self.allow(AclOperation.DESCRIBE, AclResourceType.TOPIC, "clicks")
        page = self.show("/groups/readers")
        self.assertNotIn("closed", page.text)
        self.assertIn("for visitors who may see all topics", page.text)
