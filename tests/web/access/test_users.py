"""Page of users: passwords, ACLs and quotas of each, forms that are shown again, and old addresses."""

from __future__ import annotations

from urllib.parse import quote

from pylogbroker.security.acls.bindings import CLUSTER_NAME, AclOperation, AclResourceType
from tests.web.test_changes import ChangeTests
from tests.web.test_pages import HOSTILE, PageTests
from tests.web.test_visitors import AnonymousTests

_ACLS = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer", "super.users": "User:ANONYMOUS;User:root"}


class TestUsers(PageTests, ChangeTests):
    settings = _ACLS

    def setUp(self) -> None:
        super().setUp()
        self.change("set-password", name="bob", password="secret", mechanism="SCRAM-SHA-512")
        for name in ("orders", "clicks"):
            self.change("add-acl", resource="topic", name=name, principal="User:eve", operation="read")
        self.change("add-acl", resource="topic", name="*", principal="User:*", operation="describe")
        for user in ("bob", "(default)"):
            self.change("set-quota", user=user, key="producer_byte_rate", value=1)
        self.change("set-quota", user="bob", client_id="app", key="producer_byte_rate", value=1)

    def rows(self, address: str = "/access/users") -> list[list[str]]:
        return [[cell.strip() for cell in row] for row in self.show(address).rows]

    def test_users_have_their_mechanisms_and_numbers_of_acls_and_quotas(self) -> None:
        bob, eve = self.rows()
        self.assertEqual(bob[1:4], ["SCRAM-SHA-512 4,096 iterations", "0", "2"])
        self.assertEqual(eve[1:4], ["none here", "2", "0"])
        links = self.show("/access/users").links
        self.assertIn("/access/acls?principal=User%3Aeve", links)
        self.assertIn("/access/quotas?search=bob", links)
        self.assertIn("/access/users/bob/delete", links)
        self.assertNotIn("/access/users/eve/delete", links)

    def test_search_and_order_are_those_of_all_users(self) -> None:
        self.assertEqual([row[0][:3] for row in self.rows("/access/users?sort=-acls")], ["eve", "bob"])
        self.assertEqual([row[0][:3] for row in self.rows("/access/users?search=ev")], ["eve"])
        self.assertIn("No user fits", self.show("/access/users?search=nobody").text)
        self.show("/access/users?sort=age", 400)

    def test_a_super_user_is_marked(self) -> None:
        self.change("set-password", name="root", password="secret")
        self.assertIn("super user", " ".join(self.rows()[2]))

    def test_a_rejected_form_keeps_what_was_typed(self) -> None:
        answer = self.submit("access/users/password", name="carol", password="")
        self.assertEqual(answer.code, 400)
        self.assertIn("write a password", answer.body)
        self.assertIn('value="carol"', answer.body)
        self.assertIn("write the name", self.submit("access/users/password", name=" ", password="x").body)

    def test_deletion_says_what_stays_and_needs_the_name(self) -> None:
        page = self.show("/access/users/bob/delete").text
        self.assertIn(
            "bob can no longer connect with a password of SCRAM-SHA-512. 2 quotas stay.", page.replace("\n", "")
        )
        answer = self.submit("access/users/bob/delete", confirm="eve")
        self.assertEqual(answer.code, 400)
        self.assertIn("write bob", answer.body)
        self.assertEqual(self.submit("access/users/bob/delete", confirm="bob").headers["location"], "/access/users")
        self.assertEqual(self.ask("users")["total"], 0)
        self.show("/access/users/bob/delete", 404)

    def test_any_name_has_an_address(self) -> None:
        self.change("set-password", name=HOSTILE, password="secret")
        path = f"access/users/{quote(HOSTILE, safe='')}/delete"
        self.assertIn(HOSTILE, self.show(f"/{path}").text)
        self.assertEqual(self.submit(path, confirm=HOSTILE).code, 303)

    def test_old_addresses_lead_to_the_new_ones(self) -> None:
        for old, new in (("/access", "/access/users"), ("/users?search=bob", "/access/users?search=bob")):
            answer = self.connect().get(old)
            self.assertEqual((answer.code, answer.headers["location"]), (301, new))


class TestWithoutAuthorizer(PageTests, ChangeTests):
    def test_no_number_of_acls_is_shown(self) -> None:
        self.assertIn("No users yet", self.show("/access/users").text)
        self.change("set-password", name="bob", password="secret")
        self.assertIn("no authorizer", self.show("/access/users").text)


class TestRights(AnonymousTests, PageTests, ChangeTests):
    settings = AnonymousTests.settings

    def test_a_visitor_who_may_not_see_quotas_sees_the_users(self) -> None:
        self.show("/access/users", 403)
        self.allow(AclOperation.DESCRIBE, AclResourceType.CLUSTER, CLUSTER_NAME)
        self.assertIn("not known", self.show("/access/users").text)
        answer = self.submit("access/users/password", name="bob", password="secret")
        self.assertEqual(answer.code, 403)
        self.assertIn("Nothing was changed.", answer.body)
