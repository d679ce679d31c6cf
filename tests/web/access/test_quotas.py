"""Page of quotas: values in their units, use on this broker, and the form that sets and removes them."""

from __future__ import annotations

from unittest.mock import patch

from pylogbroker.broker.security.client_quotas import QuotaUse
from pylogbroker.security.acls.bindings import CLUSTER_NAME, AclOperation, AclResourceType
from pylogbroker.security.quotas.keys import QuotaKey
from tests.web.test_changes import ChangeTests
from tests.web.test_pages import HOSTILE, PageTests
from tests.web.test_site import Answer
from tests.web.test_visitors import AnonymousTests


class QuotaPageTests(PageTests, ChangeTests):
    def rows(self, query: str = "") -> list[list[str]]:
        page = self.show(f"/access/quotas{query}")
        return [[" ".join(cell.split()) for cell in row][:6] for row in page.rows]

    def set_quotas(self, **fields: str) -> Answer:
        return self.submit("access/quotas/set", **fields)

    def values(self, name: str) -> dict[str, float]:
        [row] = self.ask(f"quotas?search={name}")["quotas"]
        return {value["key"]: value["value"] for value in row["values"]}


class TestQuotas(QuotaPageTests):
    def test_entities_with_values_in_their_units(self) -> None:
        self.assertIn("No quotas yet", self.show("/access/quotas").text)
        self.set_quotas(user="alice", producer_byte_rate="10MB", consumer_byte_rate="1500", request_percentage="12.5")
        self.set_quotas(user="(default)", client_id="app", controller_mutation_rate="2.5")
        answer = self.set_quotas(ip="10.0.0.1", connection_creation_rate="30")
        self.assertEqual((answer.code, answer.headers["location"]), (303, "/access/quotas"))
        self.assertEqual(
            self.rows(),
            [
                ["address 10.0.0.1connections 30/s", "", "", "", "", "30/s"],
                ["every other user, client id appchanges 2.5/s", "", "", "", "2.5/s", ""],
                ["user alicerequest time 12.5 %", "10.0 MiB/s", "1.46 KiB/s", "12.5 %", "", ""],
            ],
        )
        self.assertEqual([row[0][:10] for row in self.rows("?search=ali")], ["user alice"])
        self.assertIn("No quota fits", self.show("/access/quotas?search=nobody").text)

    def test_a_form_sets_what_is_given_and_removes_what_is_empty(self) -> None:
        self.set_quotas(user="alice", producer_byte_rate="10MB", request_percentage="50")
        page = self.show("/access/quotas")
        self.assertIn("/access/quotas/set?user=alice", page.links)
        self.assertIn('value="10485760"', self.connect().get("/access/quotas/set?user=alice").body)
        self.set_quotas(user="alice", producer_byte_rate="20 MiB", consumer_byte_rate="1k", request_percentage="")
        self.assertEqual(self.values("alice"), {"producer_byte_rate": 20971520.0, "consumer_byte_rate": 1024.0})
        self.set_quotas(user="alice")
        self.assertEqual(self.ask("quotas")["total"], 0)

    def test_wrong_values_change_nothing_and_are_named_at_their_field(self) -> None:
        self.set_quotas(user="alice", producer_byte_rate="10MB")
        for fields, text in (
            ({"user": "alice", "producer_byte_rate": "fast"}, "is no number, such as 10MB"),
            ({"user": "alice", "producer_byte_rate": "-1"}, "a number above 0"),
            ({"user": "alice", "request_percentage": "0"}, "a number above 0"),
            ({"user": "alice", "request_percentage": "nan"}, "is no number, such as 25"),
            ({"user": "alice", "request_percentage": "1e999"}, "a number above 0"),
            ({"user": "alice", "producer_byte_rate": "1.5"}, "cannot be a fractional value"),
            ({"user": "alice", "producer_byte_rate": "99999999TB"}, "too large"),
            ({"user": "alice", "connection_creation_rate": "1"}, "addresses alone have it"),
            ({"ip": "10.0.0.1", "producer_byte_rate": "1"}, "users and client ids alone have it"),
            ({"user": "alice", "ip": "10.0.0.1", "connection_creation_rate": "1"}, "leave the user"),
            ({"ip": "nowhere", "connection_creation_rate": "1"}, ""),
            ({"producer_byte_rate": "1"}, "write a user, a client id, or an address"),
        ):
            answer = self.set_quotas(**fields)
            self.assertEqual(answer.code, 400, fields)
            self.assertIn(text, answer.body)
            self.assertIn("Set quotas", answer.body)
        self.assertEqual(self.values("alice"), {"producer_byte_rate": 10485760.0})

    def test_use_on_this_broker_is_shown(self) -> None:
        self.set_quotas(user="alice", producer_byte_rate="10MB")
        use = QuotaUse(QuotaKey.PRODUCER_BYTE_RATE, "alice", "", 12_582_912.0, 200)
        with patch.object(type(self.node.broker.quotas), "used", lambda _: iter([use])):
            self.assertEqual(self.rows()[0][1], "10.0 MiB/s 12.0 MiB/s now, throttled")

    def test_names_stay_text_and_old_addresses_lead_here(self) -> None:
        self.set_quotas(user=HOSTILE, client_id=HOSTILE, producer_byte_rate="1")
        self.assertIn(HOSTILE, self.rows()[0][0])
        self.assertEqual(self.connect().get("/quotas?search=a").headers["location"], "/access/quotas?search=a")


class TestRights(AnonymousTests, QuotaPageTests):
    settings = AnonymousTests.settings

    def test_quotas_need_rights_on_the_cluster(self) -> None:
        self.show("/access/quotas", 403)
        self.allow(AclOperation.DESCRIBE_CONFIGS, AclResourceType.CLUSTER, CLUSTER_NAME)
        self.show("/access/quotas")
        answer = self.set_quotas(user="alice", producer_byte_rate="10MB")
        self.assertEqual(answer.code, 403)
        self.assertIn("Nothing was changed.", answer.body)
        self.assertIn('value="10MB"', answer.body)
