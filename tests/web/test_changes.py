"""Changes: what they do, who may do them, and that no other site's page can."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

from pylogbroker.groups import Join
from pylogbroker.security.acls.bindings import AclOperation, AclResourceType
from pylogbroker.web.pages import PAGES
from tests.web.described import operation
from tests.web.test_pages import Parsed
from tests.web.test_site import Answer
from tests.web.test_views import NOW, ViewTests
from tests.web.test_visitors import AnonymousTests

_ACL = {
    **{"resource": "topic", "name": "clicks", "pattern": "literal", "principal": "User:bob", "host": "*"},
    **{"operation": "read", "permission": "allow"},
}
_ENTRY = ("principal", "resource", "name", "pattern")
_FORMS_ALONE = (
    "access/acls/allow",
    "access/acls/remove-all",
    "access/quotas/set",
    "brokers/elect-leaders",
    "brokers/reassignments",
    "brokers/{broker}/settings",
    "groups/{id}/delete",
    "groups/{id}/delete-offsets",
    "topics/{topic}/partitions",
)
"""Forms of changes that the API does not have."""
FORM = "application/x-www-form-urlencoded"


def headers_of(row: Any) -> list[tuple[str, str]]:
    return [(each["name"], each["value"]["text"]) for each in row["headers"]]


class ChangeTests(ViewTests):
    def post(self, path: str, body: bytes, content_type: str, **headers: str) -> Answer:
        return self.send("POST", path, body, content_type, **headers)

    def send(self, method: str, path: str, body: bytes, content_type: str, **headers: str) -> Answer:
        lines = {"Host": "localhost", "Content-Type": content_type, "Content-Length": str(len(body))}
        lines |= {name.replace("_", "-"): value for name, value in headers.items()}
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        return self.connect().send(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body)

    def change(self, name: str, code: int = 200, /, **fields: Any) -> Any:
        asked = operation(name)
        if asked.method == "DELETE":
            path, content = asked.address(fields), b""
        else:
            path, rest = asked.request(fields)
            content = json.dumps(rest).encode()
        answer = self.send(asked.method, path, content, "application/json")
        self.assertEqual((answer.code, answer.headers["content-type"]), (code, "application/json"), answer.body)
        body = json.loads(answer.body)
        if code != 400:
            asked.check_names(fields)
        asked.check_answer(code, body)
        return body

    def submit(self, name: str, token: str | None = None, /, **fields: str) -> Answer:
        token = self.token() if token is None else token
        return self.post(f"/{name}", urlencode(fields | {"form_token": token}).encode(), FORM)

    def token(self) -> str:
        page = self.connect().get("/create-topic").body
        return page.partition('name="form_token" value="')[2].partition('"')[0]

    def record(self, topic: str, partition: int = 0) -> Any:
        [row] = self.ask(f"records?topic={topic}&partition={partition}&last=1")["records"]
        return row


class TestTopics(ChangeTests):
    def test_create_alter_and_delete(self) -> None:
        done = self.change("create-topic", name="clicks", partitions=3, settings={"retention.ms": "1000"})
        found = self.ask("topic?name=clicks")
        self.assertEqual((found["id"], found["partitions"]), (done["id"], 3))
        self.assertEqual(self.setting("retention.ms"), ("1000", "DYNAMIC_TOPIC_CONFIG"))
        self.change("set-setting", name="clicks", setting="retention.ms", value=2000)
        self.assertEqual(self.setting("retention.ms"), ("2000", "DYNAMIC_TOPIC_CONFIG"))
        self.change("restore-setting", name="clicks", setting="retention.ms")
        self.assertEqual(self.setting("retention.ms"), ("604800000", "DEFAULT_CONFIG"))
        self.change("delete-topic", name="clicks")
        self.ask("topic?name=clicks", 404)

    def setting(self, name: str) -> tuple[str, str]:
        [found] = [each for each in self.ask("topic?name=clicks")["settings"] if each["name"] == name]
        return found["value"], found["source"]

    def test_errors(self) -> None:
        self.node.create("clicks")
        self.assertIn("clicks", self.change("create-topic", 409, name="clicks")["error"])
        self.assertIn("'a/b' has characters", self.change("create-topic", 400, name="a/b")["error"])
        self.change("create-topic", 400, name="other", settings={"retention.ms": "soon"})
        self.change("set-setting", 400, name="clicks", setting="no.such.setting", value="1")
        self.change("set-setting", 400, name="clicks", setting="retention.ms")
        self.change("delete-topic", 404, name="other")
        for body in (b"[]", b"{", b'{"name": [1]}', b'{"name": {"a": 1}}', b"[" * 10_000):
            self.assertEqual(self.post("/api/topics", body, "application/json").code, 400, body)


class TestResetGroup(ChangeTests):
    def setUp(self) -> None:
        super().setUp()
        self.node.create("clicks")
        self.node.produce("clicks", 0, *(NOW + n * 1000 for n in range(10)))
        self.commit("readers", "clicks", 4)

    def after(self, **where: Any) -> int:
        preview = self.ask(f"preview-reset?{urlencode({'id': 'readers', **where})}")
        [row] = preview["offsets"]
        self.assertEqual((row["topic"], row["partition"], row["before"]), ("clicks", 0, self.offset()))
        self.assertEqual(row["lag"], 10 - row["after"])
        before = self.offset()
        done = self.change("reset-group", id="readers", **where)
        self.assertEqual(done["offsets"], preview["offsets"])
        self.assertEqual(self.offset(), row["after"], before)
        return self.offset()

    def offset(self) -> int:
        [row] = self.ask("group?id=readers")["offsets"]
        return int(row["offset"])

    def test_offsets_are_reset_to_each_target(self) -> None:
        self.assertEqual(self.after(to="latest"), 10)
        self.assertEqual(self.after(to="earliest"), 0)
        self.assertEqual(self.after(to="offset", offset=7), 7)
        self.assertEqual(self.after(to="shift", by=-2), 5)
        self.assertEqual(self.after(to="shift", by=99), 10)
        self.assertEqual(self.after(to="time", time=NOW + 2500), 3)
        self.assertEqual(self.after(to="time", time=NOW + 60_000), 10)
        self.assertEqual(self.after(to="offset", offset=1, topic="clicks", partition=0), 1)

    def test_a_preview_changes_nothing(self) -> None:
        self.ask("preview-reset?id=readers&to=latest")
        self.assertEqual(self.offset(), 4)

    def test_errors(self) -> None:
        self.change("reset-group", 404, id="nobody", to="earliest")
        for wrong in ({"to": "offset"}, {"to": "shift"}, {"to": "shift", "by": "x"}, {"to": "time", "time": "soon"}):
            self.change("reset-group", 400, id="readers", **wrong)
        self.change("reset-group", 400, id="readers", to="earliest", topic="other")
        self.assertEqual(self.offset(), 4)

    def test_a_group_with_members_is_left_alone(self) -> None:
        join = Join("readers", "", "client", "/127.0.0.1", 10_000, 10_000, "consumer", [("range", b"")])
        self.node.broker.groups.join(join, lambda _: None, NOW)
        self.assertFalse(self.ask("preview-reset?id=readers&to=latest")["may_reset"])
        self.assertIn("stop its members", self.change("reset-group", 400, id="readers", to="latest")["error"])
        self.assertEqual(self.offset(), 4)


class TestForms(ChangeTests):
    """Forms of the page: they work without JavaScript, and lead to a page that shows the change."""

    def test_changes_lead_to_a_page(self) -> None:
        answer = self.submit("create-topic", name="clicks", partitions="2", settings="retention.ms = 1000\n\n")
        self.assertEqual((answer.code, answer.headers["location"]), (303, "/topics/clicks/records"))
        answer = self.submit("topics/clicks/records/new", partition="1", key="", value="v", headers="trace: 1\nb: x:y")
        self.assertEqual((answer.code, answer.headers["location"]), (303, "/topics/clicks/records?at=1:0"))
        row = self.record("clicks", 1)
        self.assertEqual((row["key"]["format"], row["value"]["text"]), ("null", "v"))
        self.assertEqual(
            [(each["name"], each["value"]["text"]) for each in row["headers"]], [("trace", "1"), ("b", "x:y")]
        )
        self.commit("readers", "clicks", 0)
        self.assertEqual(self.submit("topics/clicks/delete", confirm="click").code, 400)
        self.ask("topic?name=clicks")
        self.assertEqual(self.submit("topics/clicks/delete", confirm="clicks").headers["location"], "/topics")

    def test_lines_end_as_they_were_typed(self) -> None:
        self.node.create("clicks")
        self.submit("topics/clicks/records/new", value="one\r\n\r\ntwo\nthree\r", key="a\r\nb", headers="h: 1\r\ni: 2")
        row = self.record("clicks")
        self.assertEqual((row["value"]["text"], row["key"]["text"]), ("one\n\ntwo\nthree\r", "a\nb"))
        self.assertEqual(headers_of(row), [("h", "1"), ("i", "2")])
        self.change("write-records", topic="clicks", value="one\r\ntwo", headers={"h": "1\r\n"})
        row = self.record("clicks")
        self.assertEqual((row["value"]["text"], headers_of(row)), ("one\r\ntwo", [("h", "1\r\n")]))

    def test_an_error_is_a_page(self) -> None:
        answer = self.submit("create-topic", name="a b")
        self.assertEqual(answer.headers["content-type"], "text/html; charset=utf-8")
        self.assertIn("a b", Parsed(answer.body).text)

    def test_a_form_needs_the_token(self) -> None:
        for token in ("", "00", self.source.form_tokens.token("User:other")):
            answer = self.submit("create-topic", token, name="clicks")
            self.assertEqual(answer.code, 403)
            self.assertIn("load the page again", answer.body)
        self.ask("topic?name=clicks", 404)

    def test_other_sites_change_nothing(self) -> None:
        body = urlencode({"name": "clicks", "form_token": self.token()}).encode()
        foreign: list[dict[str, str]] = [
            {"Origin": "http://attacker.example"},
            {"Origin": "http://localhost:8000"},
            {"Origin": "null"},
            {"Sec_Fetch_Site": "cross-site"},
            {"Sec_Fetch_Site": "same-site"},
            {"Origin": "http://localhost", "Sec_Fetch_Site": "same-site"},
        ]
        for headers in foreign:
            self.assertEqual(self.post("/create-topic", body, FORM, **headers).code, 403, headers)
            self.assertEqual(self.post("/api/topics", b'{"name": "x"}', "application/json", **headers).code, 403)
        for content_type in ("text/plain", FORM, ""):
            self.assertEqual(self.post("/api/topics", b'{"name": "clicks"}', content_type).code, 415)
        self.assertEqual(self.post("/create-topic", body, "multipart/form-data").code, 400)
        self.assertEqual(self.post("/create-topic", body, "text/plain").code, 415)
        self.assertEqual(self.ask("topics")["total"], 0)
        own = {"Origin": "http://localhost", "Sec_Fetch_Site": "same-origin"}
        self.assertEqual(self.post("/create-topic", body, FORM, **own).code, 303)

    def test_only_changes_take_posts(self) -> None:
        self.assertEqual(self.submit("topics").code, 405)
        self.assertEqual(self.connect().get("/access/acls/add").code, 405)
        self.assertEqual(self.connect().get("/access/acls/add").headers["allow"], "POST")


class TestDenials(AnonymousTests, ChangeTests):
    def test_changes_need_rights(self) -> None:
        self.node.create("clicks")
        self.commit("readers", "clicks", 0)
        denied: list[tuple[str, dict[str, Any]]] = [
            ("create-topic", {"name": "other"}),
            ("topics/{topic}/partitions", {"topic": "clicks", "count": 9}),
            ("topics/{topic}/settings", {"topic": "clicks", "edit": "retention.ms", "value": "1"}),
            ("topics/{topic}/delete", {"topic": "clicks", "confirm": "clicks"}),
            ("topics/{topic}/records/new", {"topic": "clicks", "partition": 0, "value": "v"}),
            ("access/users/password", {"name": "bob", "password": "secret"}),
            ("access/users/{name}/delete", {"name": "bob", "confirm": "bob"}),
            ("access/acls/allow", {"principal": "User:bob", "task": "produce", "topic": "clicks"}),
            ("access/acls/add", _ACL),
            ("access/acls/remove", _ACL),
            ("access/acls/remove-all", {**{name: _ACL[name] for name in _ENTRY}, "confirm": _ACL["principal"]}),
            ("access/quotas/set", {"user": "bob", "producer_byte_rate": "1"}),
            ("brokers/{broker}/settings", {"broker": 7, "edit": "log.segment.bytes", "value": "1GB"}),
            ("brokers/elect-leaders", {}),
            ("brokers/reassignments", {"topic": "clicks", "partition": 0}),
            ("transactions/{id}/fence", {"id": "p", "confirm": "p"}),
            ("topics/{topic}/producers/abort", {"topic": "clicks", "producer_id": 1, "confirm": "clicks"}),
            ("groups/{id}/reset", {"id": "readers", "to": "earliest", "confirm": "readers"}),
            ("groups/{id}/delete", {"id": "readers", "confirm": "readers"}),
            ("groups/{id}/delete-offsets", {"id": "readers", "topic": "clicks", "confirm": "clicks"}),
        ]
        paths = {route.path.strip("/") for route in PAGES if route.method == "POST"}
        forms = {path for path in paths if not path.startswith("schemas")}  # they need a registry: test_schema_pages
        self.assertEqual({name for name, _ in denied}, forms)
        in_other_form = {
            "topics/{topic}/settings": "set-setting",
            "topics/{topic}/delete": "delete-topic",
            "topics/{topic}/records/new": "write-records",
            "access/acls/add": "add-acl",
            "access/acls/remove": "delete-acl",
            "groups/{id}/reset": "reset-group",
            "transactions/{id}/fence": "fence-producer",
            "topics/{topic}/producers/abort": "abort-transaction",
            "access/users/password": "set-password",
            "access/users/{name}/delete": "delete-user",
        }
        for name, fields in denied:
            if name not in _FORMS_ALONE:
                api = operation(in_other_form.get(name, name))
                renamed = {"name": fields.get("name", fields.get("topic", "")), "setting": fields.get("edit", "")}
                named = {**fields, **renamed}
                self.change(api.name, 403, **{each: value for each, value in named.items() if each in api.names})
            parts = {each: str(value) for each, value in fields.items() if f"{{{each}}}" in name}
            answer = self.submit(
                name.format(**parts), **{each: str(fields[each]) for each in fields.keys() - parts.keys()}
            )
            self.assertEqual((answer.code, answer.headers["content-type"]), (403, "text/html; charset=utf-8"))
        self.assertIn("no right to WRITE on the topic", self.change("write-records", 403, **denied[4][1])["error"])
        self.allow(AclOperation.DESCRIBE, AclResourceType.TOPIC, "clicks")
        self.assertIn("no right to WRITE on the topic", self.change("write-records", 403, **denied[4][1])["error"])
        self.assertEqual(self.node.broker.partitions.find("clicks", 0).log.high_watermark, 0)
        self.allow(AclOperation.WRITE, AclResourceType.TOPIC, "clicks")
        self.change("write-records", topic="clicks", partition=0, value="v")
        self.allow(AclOperation.DESCRIBE, AclResourceType.GROUP, "readers")
        self.change("reset-group", 403, id="readers", to="latest")
