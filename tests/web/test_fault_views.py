"""Faults on the page: there where testing is on alone, and as a program's own."""

from __future__ import annotations

from pylogbroker.security.acls.bindings import CLUSTER_NAME, AclOperation, AclResourceType
from pylogbroker.testing.faults import Faults
from pylogbroker.web.fault_pages import FAULT_PAGES
from pylogbroker.web.fault_port import FaultPort
from pylogbroker.web.views import FAULT_ROUTES
from tests.web.test_changes import ChangeTests
from tests.web.test_pages import HOSTILE, Parsed
from tests.web.test_visitors import AnonymousTests


class FaultTests(ChangeTests):
    def faults(self) -> FaultPort:
        self.registry = Faults()
        return self.registry

    def setUp(self) -> None:
        super().setUp()
        self.registry.attach(None, self.node.broker)
        self.node.create("clicks")


class TestFaults(FaultTests):
    def test_list_add_and_remove(self) -> None:
        own = self.registry.add("Fetch", delay=0.5, times=None, client_id="app")
        done = self.change("add-fault", api="Produce", error="NOT_LEADER_OR_FOLLOWER", topic="clicks", partition=0)
        found = self.ask("faults")
        self.assertEqual([row["id"] for row in found["faults"]], [own.id, done["id"]])
        self.assertEqual(found["faults"][0]["description"], "the fault delay=0.5 for Fetch client_id=app")
        wanted = "the fault NOT_LEADER_OR_FOLLOWER for Produce topic=clicks partition=0"
        self.assertEqual(found["faults"][1], {"id": 2, "description": wanted, "hits": 0, "is_spent": False})
        self.assertIn("Produce", found["apis"])
        self.assertEqual([row["id"] for row in self.ask("faults?start=1")["faults"]], [done["id"]])
        self.change("remove-fault", id=own.id)
        self.change("remove-fault", 404, id=own.id)
        self.assertEqual([each.id for each in self.registry.listed()], [done["id"]])

    def test_all_fields(self) -> None:
        self.change(
            "add-fault",
            **{"error": ["NOT_LEADER_OR_FOLLOWER", "REQUEST_TIMED_OUT"], "after": True, "delay": 1.5},
            **{"hold": True, "close": "mid-frame", "throttle_ms": 7, "must_fire": True, "times": 5},
            **{"group": "g", "transactional_id": "p", "broker": 3, "client_id": "app", "principal": "User:bob"},
        )
        [fault] = self.registry.listed()
        errors = "NOT_LEADER_OR_FOLLOWER, REQUEST_TIMED_OUT"
        self.assertEqual(
            str(fault),
            f"the fault {errors}, delay=1.5, hold, close=mid-frame, throttle_ms=7 after the work for any API "
            "group=g transactional_id=p broker=3 client_id=app principal=User:bob",
        )
        self.assertEqual((fault.times, fault.must_fire), (5, True))

    def test_how_often(self) -> None:
        for fields in ({}, {"error": ["REQUEST_TIMED_OUT", "UNKNOWN_SERVER_ERROR"]}, {"times": None}):
            self.change("add-fault", **{"api": "Fetch", "delay": 1, **fields})
        self.assertEqual([each.times for each in self.registry.listed()], [1, 2, None])

    def test_release(self) -> None:
        self.change("add-fault", api="Fetch", hold=True)
        [fault] = self.registry.listed()
        held: list[None] = []
        fault.released().addCallback(held.append)
        self.assertEqual(held, [])
        self.assertTrue(self.change("release-fault", id=fault.id)["is_spent"])
        self.assertEqual(held, [None])
        self.change("release-fault", 404, id=99)

    def test_errors(self) -> None:
        for wrong, text in (
            ({}, "a fault needs an error"),
            ({"api": "Fetsh", "delay": 1}, "did you mean 'Fetch'?"),
            ({"error": "NO_LEADER"}, "there is no error 'NO_LEADER'"),
            ({"error": "REQUEST_TIMED_OUT", "topic": "click"}, "did you mean 'clicks'?"),
            ({"delay": -1}, "delay"),
            ({"delay": 1e9}, "delay"),
            ({"close": "soon"}, "close must be one of"),
        ):
            self.assertIn(text, self.change("add-fault", 400, **wrong)["error"])
        self.assertEqual(self.ask("faults")["total"], 0)

    def test_forms(self) -> None:
        fields = dict.fromkeys(("topic", "partition", "group", "times", "delay", "broker"), "")
        answer = self.submit(
            "faults/add", api="any", close="never", error="REQUEST_TIMED_OUT", client_id=HOSTILE, **fields
        )
        self.assertEqual((answer.code, answer.headers["location"]), (303, "/faults"))
        page = Parsed(self.connect().get("/faults").body)
        self.assertIn(f"the fault REQUEST_TIMED_OUT for any API client_id={HOSTILE}", page.text)
        self.assertEqual(page.unlabelled, [])
        self.assertIn("/faults", Parsed(self.connect().get("/topics").body).links)
        self.assertEqual(self.submit("faults/1/release").code, 303)
        self.assertIn("spent", self.connect().get("/faults").body)
        self.assertEqual(self.submit("faults/1/remove").code, 303)
        self.assertEqual(self.ask("faults")["total"], 0)
        self.assertIn("No faults", self.connect().get("/faults").body)

    def test_a_rejected_form_keeps_what_was_typed(self) -> None:
        for fields, text in (
            ({"error": "NO_LEADER", "client_id": "app"}, "there is no error &#39;NO_LEADER&#39;"),
            ({"client_id": "app"}, "a fault needs an error"),
            ({"delay": "long", "client_id": "app"}, "delay must be a number"),
        ):
            answer = self.submit("faults/add", api="Fetch", close="never", **fields)
            self.assertEqual(answer.code, 400)
            self.assertIn(text, answer.body)
            self.assertIn('value="app"', answer.body)
            self.assertIn("<option selected>Fetch</option>", answer.body)
        gone = self.submit("faults/9/remove")
        self.assertEqual(gone.code, 404)
        self.assertIn("there is no fault 9", gone.body)


class TestWithoutTesting(ChangeTests):
    def test_there_is_no_such_page(self) -> None:
        for route in (*FAULT_ROUTES, *FAULT_PAGES):
            path = route.path.replace("{id}", "1")
            self.assertEqual(self.send(route.method, path, b"{}", "application/json").code, 404)
        self.assertNotIn("faults", Parsed(self.connect().get("/topics").body).links)


class TestRights(AnonymousTests, FaultTests):
    def test_faults_need_rights_on_the_cluster(self) -> None:
        fault = self.registry.add("Fetch", delay=1.0)
        self.ask("faults", 403)
        self.allow(AclOperation.DESCRIBE, AclResourceType.CLUSTER, CLUSTER_NAME)
        self.assertEqual(self.ask("faults")["total"], 1)
        self.change("add-fault", 403, api="Fetch", delay=1)
        for name in ("release-fault", "remove-fault"):
            self.change(name, 403, id=fault.id)
        self.allow(AclOperation.ALTER, AclResourceType.CLUSTER, CLUSTER_NAME)
        self.change("remove-fault", id=fault.id)
