"""Reset of a group's offsets: preview, change, and what is wrong with what was typed; and what is deleted of it."""

from __future__ import annotations

from urllib.parse import urlencode

from pylogbroker.groups import Join
from pylogbroker.security.acls.bindings import AclOperation, AclResourceType
from pylogbroker.web.group_pages.reset import reset_words
from tests.web.test_changes import ChangeTests
from tests.web.test_pages import PageTests, Parsed
from tests.web.test_views import NOW
from tests.web.test_visitors import AnonymousTests


def test_words() -> None:
    assert reset_words(0, 0) == "Nothing changes: the offsets are there already."
    assert reset_words(1, 0) == "1 record is read a second time, none is skipped."
    assert reset_words(0, 2000) == "No record is read a second time, 2,000 records are skipped."
    assert reset_words(3, 1) == "3 records are read a second time, 1 record is skipped."


class GroupChangeTests(PageTests, ChangeTests):
    def setUp(self) -> None:
        super().setUp()
        for topic in ("clicks", "orders"):
            self.node.create(topic)
            self.node.produce(topic, 0, *(NOW + n * 1000 for n in range(10)))
        self.commit("readers", "clicks", 4)
        self.commit("readers", "orders", 8)

    def join(self) -> None:
        join = Join("readers", "", "billing-1", "/10.0.0.13", 10_000, 10_000, "consumer", [("range", b"")])
        self.node.broker.groups.join(join, lambda _: None, self.node.broker.runtime.now_ms())

    def offsets(self) -> dict[str, int]:
        return {row["topic"]: row["offset"] for row in self.ask("group?id=readers")["offsets"]}


class TestReset(GroupChangeTests):
    def preview(self, **given: object) -> Parsed:
        return self.show(f"/groups/readers/reset?{urlencode(given)}")

    def cells(self, **given: object) -> list[list[str]]:
        return [[cell.strip() for cell in row] for row in self.preview(**given).rows]

    def test_previews(self) -> None:
        self.assertEqual(self.preview().rows, [])
        self.assertEqual(
            self.cells(to="earliest"),
            [["clicks 0", "4", "0", "\N{MINUS SIGN}4", "10"], ["orders 0", "8", "0", "\N{MINUS SIGN}8", "10"]],
        )
        self.assertEqual(self.cells(to="latest", topic="clicks"), [["clicks 0", "4", "10", "+6", "0"]])
        self.assertEqual([row[2] for row in self.cells(to="time", time="2023-11-14T22:13:23")], ["3", "3"])
        page = self.preview(to="shift", by=-3)
        self.assertIn("6 records are read a second time, none is skipped.", page.text)
        self.assertIn("Reset 2 offsets", page.text)
        self.assertEqual(self.offsets(), {"clicks": 4, "orders": 8})

    def test_offsets_outside_of_the_log_become_the_nearest(self) -> None:
        page = self.preview(to="offset", offset=500)
        self.assertIn("2 offsets are outside of the log, and become the nearest in it.", page.text)
        self.assertEqual(page.rows[0][2], "10 nearest")
        self.assertIn("1 offset is outside", self.preview(to="shift", by=4).text)

    def test_a_time_in_the_future_leads_to_the_ends(self) -> None:
        self.assertIn("No partition has a record since then", self.preview(to="time", time="2999-01-01").text)

    def test_errors_stay_at_the_form(self) -> None:
        for wrong, reason in (
            ({"to": "time", "time": "soon"}, "time must be milliseconds since 1970"),
            ({"to": "time"}, "time is missing"),
            ({"to": "offset", "offset": "x"}, "offset must be a number"),
            ({"to": "shift"}, "by is missing"),
            ({"to": "nowhere"}, "to must be one of"),
            ({"to": "latest", "topic": "other"}, "the group has no committed offset of such a partition"),
        ):
            page = self.preview(**wrong)
            self.assertIn(reason, page.text)
            self.assertIn("Preview", page.text)
        self.show("/groups/nobody/reset?to=latest", 404)

    def test_a_reset_asks_for_the_id(self) -> None:
        given = {"to": "shift", "by": "-3", "topic": "clicks", "partition": "", "offset": "", "time": ""}
        answer = self.submit("groups/readers/reset", **given, confirm="reader")
        self.assertEqual(answer.code, 400)
        page = Parsed(answer.body)
        self.assertIn("write readers, the id of the group", page.text)
        self.assertIn("Reset 1 offset", page.text)
        self.assertEqual(self.offsets()["clicks"], 4)
        answer = self.submit("groups/readers/reset", **given, confirm="readers")
        self.assertEqual((answer.code, answer.headers["location"]), (303, "/groups/readers"))
        self.assertEqual(self.offsets(), {"clicks": 1, "orders": 8})

    def test_members_are_named_who_have_to_stop(self) -> None:
        self.join()
        page = self.preview(to="latest")
        self.assertIn("The group has 1 member; offsets change only without any. Stop billing-1 (10.0.0.13).", page.text)
        self.assertEqual(page.actions.count("/groups/readers/reset"), 1)  # the preview
        answer = self.submit("groups/readers/reset", to="latest", confirm="readers")
        self.assertEqual(answer.code, 400)
        self.assertIn("stop its members first", answer.body)
        self.assertEqual(self.offsets()["clicks"], 4)


class TestDeletion(GroupChangeTests):
    def test_a_group_is_deleted_by_its_id(self) -> None:
        page = self.show("/groups/readers/delete")
        self.assertIn("2 offsets are lost, of clicks, orders. No record is lost.", page.text)
        self.assertEqual(self.submit("groups/readers/delete", confirm="reader").code, 400)
        answer = self.submit("groups/readers/delete", confirm="readers")
        self.assertEqual((answer.code, answer.headers["location"]), (303, "/groups"))
        self.ask("group?id=readers", 404)
        self.show("/groups/readers/delete", 404)

    def test_a_group_with_members_is_not_deleted(self) -> None:
        self.join()
        page = self.show("/groups/readers/delete")
        self.assertIn("Stop billing-1 (10.0.0.13).", page.text)
        self.assertEqual(page.actions, ["/go"])
        answer = self.submit("groups/readers/delete", confirm="readers")
        self.assertIn("it has members: stop them first", answer.body)
        self.assertEqual(len(self.offsets()), 2)

    def test_offsets_of_a_topic_are_deleted_by_its_name(self) -> None:
        self.assertIn("Choose a topic", self.show("/groups/readers/delete-offsets").text)
        self.assertIn("1 offset of clicks is lost", self.show("/groups/readers/delete-offsets?topic=clicks").text)
        self.assertIn("no offset of", self.show("/groups/readers/delete-offsets?topic=other", 404).text)
        answer = self.submit("groups/readers/delete-offsets", topic="other", confirm="other")
        self.assertEqual(answer.code, 404)
        answer = self.submit("groups/readers/delete-offsets", topic="clicks", confirm="orders")
        self.assertEqual(answer.code, 400)
        self.assertIn("write clicks, the name of the topic", answer.body)
        answer = self.submit("groups/readers/delete-offsets", topic="clicks", confirm="clicks")
        self.assertEqual((answer.code, answer.headers["location"]), (303, "/groups/readers"))
        self.assertEqual(self.offsets(), {"orders": 8})


class TestRights(AnonymousTests, GroupChangeTests):
    def test_changes_need_rights(self) -> None:
        self.allow(AclOperation.DESCRIBE, AclResourceType.GROUP, "readers")
        self.allow(AclOperation.DESCRIBE, AclResourceType.TOPIC, "clicks")
        answer = self.submit("groups/readers/delete", confirm="readers")
        self.assertEqual((answer.code, "Nothing was changed." in answer.body), (403, True))
        answer = self.submit("groups/readers/delete-offsets", topic="clicks", confirm="clicks")
        self.assertEqual(answer.code, 403)
        answer = self.submit("groups/readers/reset", to="latest", confirm="readers")
        self.assertEqual(answer.code, 403)
        self.assertEqual(self.offsets()["clicks"], 4)
