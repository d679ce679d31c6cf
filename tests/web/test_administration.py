"""Users, ACLs and quotas: what the page shows of them, and changes."""

from __future__ import annotations

from urllib.parse import quote_plus

from pylogbroker.config.mechanisms import SCRAM_SHA_256
from pylogbroker.security.acls.bindings import CLUSTER_NAME, AclOperation, AclResourceType
from pylogbroker.security.quotas.entities import DEFAULT, QuotaEntity
from pylogbroker.security.sasl.stored_credentials import decode
from tests.broker.trees import now
from tests.web.test_changes import ChangeTests
from tests.web.test_pages import HOSTILE, PageTests, Parsed
from tests.web.test_visitors import AnonymousTests


class TestUsers(ChangeTests):
    def test_set_change_and_delete(self) -> None:
        self.change("set-password", name="bob", password="first", mechanism=SCRAM_SHA_256)
        self.change("set-password", name="alice", password="secret")
        found = self.ask("users")
        both = [{"mechanism": name, "iterations": 4096} for name in ("SCRAM-SHA-256", "SCRAM-SHA-512")]
        self.assertEqual(
            found["users"],
            [
                {"name": "alice", "error": None, "credentials": both},
                {"name": "bob", "error": None, "credentials": both[:1]},
            ],
        )
        self.assertTrue(self.is_password("bob", "first"))
        self.change("set-password", name="bob", password="second")
        self.assertFalse(self.is_password("bob", "first"))
        self.assertTrue(self.is_password("bob", "second"))
        self.assertEqual([each["name"] for each in self.ask("users?search=ali")["users"]], ["alice"])
        self.assertEqual([each["name"] for each in self.ask("users?start=1")["users"]], ["bob"])
        self.change("delete-user", name="bob")
        self.change("delete-user", 404, name="bob")
        self.assertEqual([each["name"] for each in self.ask("users")["users"]], ["alice"])

    def test_errors(self) -> None:
        self.assertIn("password", self.change("set-password", 400, name="bob", password="")["error"])
        self.change("set-password", 404, name="", password="secret")
        self.change("set-password", 400, name="bob", password="secret", mechanism="PLAIN")
        self.assertEqual(self.ask("users")["total"], 0)

    def test_the_page_shows_no_secret(self) -> None:
        answer = self.submit("access/users/password", name=HOSTILE, password="do-not-show")
        self.assertEqual(
            (answer.code, answer.headers["location"]), (303, f"/access/users?search={quote_plus(HOSTILE)}")
        )
        stored = now(self.node.broker.scram.read([HOSTILE]))[0]
        page = self.connect().get("/access/users").body
        self.assertIn(HOSTILE, Parsed(page).text)
        for secret in ("do-not-show", *stored.values()):
            self.assertNotIn(secret, page)
        answer = self.submit("access/users/password", name="bob", password="do-not-show", mechanism="PLAIN")
        self.assertEqual(answer.code, 400)
        self.assertIn("mechanism must be one of", answer.body)
        self.assertIn('value="bob"', answer.body)
        self.assertNotIn("do-not-show", answer.body)

    def is_password(self, name: str, password: str) -> bool:
        [stored] = now(self.node.broker.scram.read([name]))
        return decode(SCRAM_SHA_256, stored[SCRAM_SHA_256]).is_of(password)


class TestAcls(ChangeTests):
    settings = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer", "super.users": "User:ANONYMOUS"}

    def test_add_filter_and_delete(self) -> None:
        self.change("add-acl", resource="topic", name="clicks", principal="User:bob", operation="read")
        given = {"pattern": "prefixed", "host": "10.0.0.1", "permission": "deny"}
        other = {"resource": "group", "name": "a-", "principal": "User:eve", "operation": "all", **given}
        self.assertEqual(self.change("add-acl", **other), other)
        plain = {"pattern": "literal", "host": "*", "permission": "allow"}
        first = {"resource": "topic", "name": "clicks", "principal": "User:bob", "operation": "read", **plain}
        self.assertEqual(self.ask("acls")["acls"], [other, first])
        filters = (
            "resource=topic",
            "principal=User:bob",
            "operation=read",
            "permission=allow",
            "name=clicks",
            "host=*",
        )
        for each in (*filters, "&".join(filters), "start=1", "name=clicks&pattern=match"):
            self.assertEqual(self.ask(f"acls?{each}")["acls"], [first], each)
        authorizer = self.node.broker.authorizer
        assert authorizer is not None
        self.assertTrue(authorizer.access("User:bob", "::1").allows_on_topic(AclOperation.READ, "clicks"))
        self.change("delete-acl", **first)
        self.change("delete-acl", 404, **first)
        self.assertFalse(authorizer.access("User:bob", "::1").allows_on_topic(AclOperation.READ, "clicks"))
        self.assertEqual(self.ask("acls")["acls"], [other])

    def test_errors(self) -> None:
        fields = {"resource": "topic", "name": "clicks", "principal": "User:bob", "operation": "read"}
        for wrong in (
            {"resource": "any"},
            {"resource": "thing"},
            {"operation": "any"},
            {"pattern": "match"},
            {"principal": "bob"},
            {"name": ""},
        ):
            self.change("add-acl", 400, **fields | wrong)
        self.change("delete-acl", 400, **fields)
        self.ask("acls?permission=perhaps", 400)

    def test_only_one_acl_is_deleted(self) -> None:
        fields = {"resource": "topic", "principal": "User:bob", "operation": "read"}
        for name in ("clicks", "any", "match"):
            self.change("add-acl", name=name, **fields)
        rows = self.ask("acls")["acls"]
        one = next(row for row in rows if row["name"] == "clicks")
        wide = [one | {name: ""} for name in one]
        for name in ("resource", "pattern", "operation", "permission"):
            wide += [one | {name: value} for value in ("any", " ", " any")]
        wide += [one | {"pattern": "match"}, dict.fromkeys(one, "")]
        for each in wide:
            self.change("delete-acl", 400, **each)
            self.assertEqual(self.submit("access/acls/remove", **each).code, 400)
        self.assertEqual(self.ask("acls")["acls"], rows)
        for row in rows:
            self.change("delete-acl", **row)
            self.change("delete-acl", 404, **row)


class TestWithoutAuthorizer(ChangeTests):
    def test_there_are_no_acls(self) -> None:
        found = self.ask("acls")
        self.assertEqual((found["is_enabled"], found["acls"]), (False, []))
        fields = {"resource": "topic", "name": "clicks", "principal": "User:bob", "operation": "read"}
        self.assertIn("No Authorizer", self.change("add-acl", 400, **fields)["error"])


class TestQuotas(ChangeTests):
    def test_set_and_remove(self) -> None:
        self.change("set-quota", user="bob", client_id="app", key="producer_byte_rate", value=1000)
        self.change("set-quota", user="(default)", key="request_percentage", value=12.5)
        self.change("set-quota", user="(default)", key="consumer_byte_rate", value=2e3)
        self.change("set-quota", ip="10.0.0.1", key="connection_creation_rate", value=3)
        found = self.ask("quotas")["quotas"]
        self.assertEqual(
            [(each["user"], each["client_id"], each["ip"]) for each in found],
            [(None, None, "10.0.0.1"), ("(default)", None, None), ("bob", "app", None)],
        )
        values = [{each["key"]: each["value"] for each in row["values"]} for row in found]
        of_default = {"request_percentage": 12.5, "consumer_byte_rate": 2000.0}
        self.assertEqual(values, [{"connection_creation_rate": 3.0}, of_default, {"producer_byte_rate": 1000.0}])
        self.assertEqual(self.node.broker.quotas.store.table.entities[QuotaEntity(DEFAULT)], of_default)
        self.assertEqual([row["user"] for row in self.ask("quotas?search=ap")["quotas"]], ["bob"])
        self.assertEqual([row["user"] for row in self.ask("quotas?start=2")["quotas"]], ["bob"])
        self.change("remove-quota", user="bob", client_id="app", key="producer_byte_rate")
        self.assertEqual(self.ask("quotas")["total"], 2)

    def test_errors(self) -> None:
        for wrong in (
            {"key": "producer_byte_rate", "value": 1},
            {"user": "bob", "key": "producer_byte_rate"},
            {"user": "bob", "key": "producer_byte_rate", "value": "nan"},
            {"user": "bob", "key": "producer_byte_rate", "value": 0},
            {"user": "bob", "key": "connection_creation_rate", "value": 1},
            {"user": "bob", "ip": "10.0.0.1", "key": "connection_creation_rate", "value": 1},
            {"user": "bob", "key": "speed", "value": 1},
        ):
            self.change("set-quota", 400, **wrong)
        self.assertEqual(self.ask("quotas")["total"], 0)


class TestFilledPages(PageTests, ChangeTests):
    """`show` checks labels, and that nothing in the tables becomes part of the page."""

    settings = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer", "super.users": "User:ANONYMOUS"}

    def test_tables_with_rows(self) -> None:
        name = HOSTILE.replace("/", "")
        self.change("set-password", name=name, password="secret", mechanism=SCRAM_SHA_256)
        self.change("add-acl", resource="group", name=name, principal=f"User:{name}", operation="read")
        self.change("set-quota", user=name, client_id=name, key="producer_byte_rate", value=1)
        for path in ("/access/users", "/access/acls", "/access/quotas"):
            self.assertIn(name, self.show(path).text)

    def test_labels_are_missed(self) -> None:
        page = Parsed(
            "<form action=a><input name=b><input type=hidden name=c><button></button><button>d</button></form>"
        )
        self.assertEqual((len(page.unlabelled), len(page.nameless), page.actions), (1, 1, ["a"]))


class TestRights(AnonymousTests, ChangeTests):
    def test_views_need_a_right_on_the_cluster(self) -> None:
        for view, operation in (
            ("users", AclOperation.DESCRIBE),
            ("acls", AclOperation.DESCRIBE),
            ("quotas", AclOperation.DESCRIBE_CONFIGS),
        ):
            self.ask(view, 403)
            self.assertEqual(self.connect().get(f"/access/{view}").code, 403)
            self.allow(operation, AclResourceType.CLUSTER, CLUSTER_NAME)
            self.ask(view)
            self.deny_all()
