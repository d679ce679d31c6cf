"""ACLs as a matrix, and forms that add and remove them."""

from __future__ import annotations

from pylogbroker.broker.apis import create_acls
from pylogbroker.security.acls.bindings import CLUSTER_NAME, AclOperation, AclPermission, AclResourceType, PatternType
from pylogbroker.wire.messages.create_acls import AclCreation, CreateAclsRequest
from tests.web.test_changes import ChangeTests
from tests.web.test_pages import HOSTILE, PageTests
from tests.web.test_site import Answer
from tests.web.test_visitors import AnonymousTests

_ACLS = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer", "super.users": "User:ANONYMOUS"}


class AclPageTests(PageTests, ChangeTests):
    settings = _ACLS

    def rows(self, query: str = "") -> list[list[str]]:
        page = self.show(f"/access/acls{query}")
        return [[" ".join(cell.split()) for cell in row] for row in page.rows]

    def allow_task(self, principal: str = "User:bob", topic: str = "clicks", **fields: str) -> Answer:
        return self.submit("access/acls/allow", principal=principal, topic=topic, **fields)

    def total(self) -> int:
        return int(self.ask("acls")["total"])


class TestMatrix(AclPageTests):
    def setUp(self) -> None:
        super().setUp()
        for operation in ("write", "describe"):
            self.change("add-acl", resource="topic", name="clicks", principal="User:bob", operation=operation)
        denied = {"permission": "deny", "host": "10.0.0.1"}
        self.change("add-acl", resource="topic", name="clicks", principal="User:bob", operation="delete", **denied)
        self.change("add-acl", resource="topic", name="or", pattern="prefixed", principal="User:eve", operation="read")
        self.change("add-acl", resource="group", name="*", principal="User:eve", operation="read")
        self.change("add-acl", resource="cluster", name=CLUSTER_NAME, principal="User:*", operation="describe")

    def test_principals_by_resource_with_operations(self) -> None:
        page = self.show("/access/acls")
        self.assertIn("6 of 6 ACLs", page.text)
        self.assertEqual(
            self.rows(),
            [
                ["User:* everybody", "", "", "the cluster describe"],
                ["User:bob", "clicks deny delete from 10.0.0.1; describe, write", "", ""],
                ["User:eve", "begins with or read", "all read", ""],
            ],
        )

    def test_a_filter_finds_what_holds_for_a_resource(self) -> None:
        self.assertEqual([row[0] for row in self.rows("?resource=topic&name=orders")], ["User:eve"])
        self.assertEqual([row[0] for row in self.rows("?resource=topic&name=lick")], ["User:bob"])
        self.assertEqual([row[0] for row in self.rows("?resource=group&name=any+group")], ["User:eve"])
        self.assertEqual([row[0] for row in self.rows("?principal=bob")], ["User:bob"])
        self.assertIn("No ACL fits", self.show("/access/acls?principal=nobody").text)
        self.show("/access/acls?resource=thing", 400)

    def test_old_addresses_keep_the_filter(self) -> None:
        answer = self.connect().get("/acls?principal=User:bob&resource=topic&name=clicks&pattern=any")
        self.assertEqual(answer.headers["location"], "/access/acls?principal=User%3Abob&resource=topic&name=clicks")


class TestManyAcls(AclPageTests):
    def test_a_page_has_200_entries(self) -> None:
        rows = [
            AclCreation(
                AclResourceType.TOPIC,
                f"t{number:04}",
                PatternType.LITERAL,
                "User:bob",
                "*",
                AclOperation.READ,
                AclPermission.ALLOW,
            )
            for number in range(205)
        ]
        results = self.node.ask(create_acls.handle, CreateAclsRequest(rows), 3).results
        self.assertEqual({result.error_code for result in results}, {0})
        self.assertIn("1 to 200 of 205", self.show("/access/acls").text)
        [row] = self.rows("?page=2")
        self.assertEqual(row, ["User:bob", "".join(f"t{number:04} read" for number in range(200, 205))])


class TestForms(AclPageTests):
    def test_tasks_allow_what_clients_need(self) -> None:
        self.allow_task(task="produce", transactional_id="t-1")
        self.allow_task("User:eve", "or", task="consume", group="readers", topic_pattern="prefixed", host="10.0.0.1")
        answer = self.allow_task("User:ops", "*", task="manage")
        self.assertEqual((answer.code, answer.headers["location"]), (303, "/access/acls?principal=User%3Aops"))
        configs = "alter, alter-configs, create, delete, describe, describe-configs"
        self.assertEqual(
            self.rows(),
            [
                ["User:bob", "clicks create, describe, write", "", "t-1 describe, write"],
                ["User:eve", "begins with or describe, read from 10.0.0.1", "readers read from 10.0.0.1", ""],
                ["User:ops", f"all {configs}", "", ""],
            ],
        )
        authorizer = self.node.broker.authorizer
        assert authorizer is not None
        self.assertTrue(authorizer.access("User:bob", "::1").allows_on_topic(AclOperation.WRITE, "clicks"))
        self.assertFalse(authorizer.access("User:bob", "::1").allows_on_topic(AclOperation.READ, "clicks"))

    def test_wrong_tasks_change_nothing_and_say_why(self) -> None:
        for fields, text in (
            ({"principal": "bob", "task": "produce"}, "such as User:bob"),
            ({"principal": "", "task": "produce"}, "such as User:alice"),
            ({"topic": " ", "task": "produce"}, "write the name of a topic"),
            ({"task": "consume"}, "write the group"),
            ({"task": "produce", "group": "readers"}, "needs no group"),
            ({"task": "manage", "transactional_id": "t"}, "needs no transactional id"),
            ({"task": "dance"}, "task must be one of produce, consume, manage"),
            ({"task": "produce", "topic_pattern": "match"}, "topic_pattern must be one of literal, prefixed"),
            ({"task": "produce", "topic": "a/b"}, "cannot have a slash"),
        ):
            answer = self.allow_task(**fields)
            self.assertEqual(answer.code, 400, fields)
            self.assertIn(text, answer.body)
            self.assertIn("Allow something", answer.body)
        self.assertEqual(self.total(), 0)

    def test_one_acl(self) -> None:
        fields = {"principal": "User:bob", "permission": "deny", "operation": "alter", "resource": "cluster"}
        self.assertEqual(self.submit("access/acls/add", **fields).code, 303)
        self.assertEqual(self.rows(), [["User:bob", "the cluster deny alter"]])
        for wrong, text in (
            ({"principal": "bob"}, "such as User:bob"),
            ({"name": "clicks"}, "leave the name empty"),
            ({"resource": "topic"}, "write the name of the topic"),
            ({"resource": "thing"}, "resource must be one of"),
            ({"operation": "any", "resource": "topic", "name": "clicks"}, "operation"),
        ):
            answer = self.submit("access/acls/add", **fields | wrong)
            self.assertEqual(answer.code, 400, wrong)
            self.assertIn(text, answer.body)

    def test_removal_of_one_and_of_all(self) -> None:
        self.allow_task(task="produce")
        path = "/access/acls/entry?principal=User%3Abob&resource=topic&name=clicks&pattern=literal"
        self.assertIn(path, self.show("/access/acls").links)
        page = self.show(path)
        self.assertEqual(
            [row[:2] for row in page.rows], [["create", "allow"], ["describe", "allow"], ["write", "allow"]]
        )
        row = self.ask("acls?operation=create")["acls"][0]
        self.assertEqual(self.submit("access/acls/remove", **row).code, 303)
        self.assertEqual(self.submit("access/acls/remove", **row).code, 404)
        self.assertEqual(self.total(), 2)
        all_of = {"principal": "User:bob", "resource": "topic", "name": "clicks", "pattern": "literal"}
        answer = self.submit("access/acls/remove-all", **all_of, confirm="bob")
        self.assertEqual(answer.code, 400)
        self.assertIn("write User:bob", answer.body)
        self.assertEqual(self.submit("access/acls/remove-all", **all_of, confirm="User:bob").code, 303)
        self.assertEqual(self.total(), 0)
        self.assertIn("No ACLs yet", self.show("/access/acls").text)
        self.show(path, 404)

    def test_wide_fields_remove_nothing(self) -> None:
        self.allow_task(task="produce")
        row = self.ask("acls")["acls"][0]
        for wide in ({"pattern": "match"}, {"operation": "any"}, {"host": ""}, {"resource": "any"}):
            self.assertEqual(self.submit("access/acls/remove", **row | wide).code, 400)
        for wide in ({"pattern": "any"}, {"pattern": "match"}, {"name": ""}, {"principal": "", "confirm": ""}):
            fields = {"principal": "User:bob", "resource": "topic", "name": "clicks", "confirm": "User:bob", **wide}
            self.assertEqual(self.submit("access/acls/remove-all", **fields).code, 400)
        self.assertEqual(self.total(), 3)

    def test_hostile_names_stay_text(self) -> None:
        name = HOSTILE.replace("/", "")
        self.allow_task(f"User:{name}", name, task="consume", group=name)
        [row] = self.rows()
        self.assertEqual(row[0], f"User:{name}")
        for link in self.show("/access/acls").links:
            if link.startswith("/access/acls/entry"):
                self.assertIn(name, self.show(link).text)


class TestWithoutAuthorizer(PageTests, ChangeTests):
    def test_the_page_says_what_to_write(self) -> None:
        text = self.show("/access/acls").text
        self.assertIn("There is no authorizer: everybody who can connect may do everything.", text)
        self.assertIn("authorizer.class.name=kafka.security.authorizer.AclAuthorizer", text)
        answer = self.submit("access/acls/allow", principal="User:bob", task="produce", topic="clicks")
        self.assertEqual(answer.code, 400)
        self.assertIn("No Authorizer is configured", answer.body)


class TestRights(AnonymousTests, PageTests, ChangeTests):
    settings = AnonymousTests.settings

    def test_forms_need_the_right_to_alter_the_cluster(self) -> None:
        self.show("/access/acls", 403)
        self.allow(AclOperation.DESCRIBE, AclResourceType.CLUSTER, CLUSTER_NAME)
        self.show("/access/acls")
        answer = self.submit("access/acls/allow", principal="User:bob", task="produce", topic="clicks")
        self.assertEqual(answer.code, 403)
        self.assertIn("Nothing was changed.", answer.body)
        self.assertIn('value="User:bob"', answer.body)
