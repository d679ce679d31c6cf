"""Pages of other sites: the headers of answers, and what is rejected."""

from __future__ import annotations

from typing import Any

from tests.web.records_api.http_tests import PATH, RecordsTests

SHOP = "https://shop.example"
OTHER = "https://other.example"


class CrossOriginTests(RecordsTests):
    def preflight(self, origin: str) -> Any:
        headers = {"origin": origin, "access_control_request_method": "POST"}
        answer = self.request("OPTIONS", PATH, **headers)
        self.assertEqual((answer.code, answer.body), (204, ""))
        return {name[15:]: value for name, value in answer.headers.items() if name.startswith("access-control-")}

    def post_from(self, origin: str) -> Any:
        return self.post({"value": 1}, origin=origin, sec_fetch_site="cross-site")


class TestWithoutSettings(CrossOriginTests):
    def test_no_other_page_reads_or_writes(self) -> None:
        self.assertEqual(self.preflight(SHOP), {})
        rejected = self.post_from(SHOP)
        self.assertEqual((rejected.code, "in access.control.allow.origin" in rejected.body), (403, True))
        answer = self.request("GET", PATH, origin=SHOP)
        self.assertNotIn("access-control-allow-origin", answer.headers)
        self.assertEqual(self.post({"value": 1}, origin="http://localhost", sec_fetch_site="same-origin").code, 200)


class TestNamedOrigins(CrossOriginTests):
    settings = {
        "access.control.allow.origin": f"{SHOP}/,https://x.example:8443",
        "access.control.allow.headers": "content-type,x-trace",
    }

    def test_named_pages_read_and_write(self) -> None:
        self.assertEqual(
            self.preflight(SHOP),
            {
                "allow-origin": SHOP,
                "allow-credentials": "true",
                "allow-methods": "GET, POST, OPTIONS",
                "allow-headers": "content-type, x-trace",
                "max-age": "600",
            },
        )
        answer = self.post_from(SHOP)
        self.assertEqual((answer.code, answer.headers["access-control-allow-origin"]), (200, SHOP))
        self.assertEqual(self.request("GET", PATH, origin=SHOP).headers["access-control-allow-origin"], SHOP)
        follower = self.opened()
        follower.protocol.dataReceived(
            f"GET {PATH} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nOrigin: {SHOP}\r\n\r\n".encode()
        )
        self.node.clock.advance(0)
        self.assertIn(f"access-control-allow-origin: {SHOP}".encode(), follower.transport.value().lower())

    def test_errors_can_be_read_too(self) -> None:
        answer = self.request("GET", f"{PATH}?from=soon", origin=SHOP)
        self.assertEqual((answer.code, answer.headers["access-control-allow-origin"]), (400, SHOP))

    def test_others_do_not(self) -> None:
        self.assertEqual(self.preflight(OTHER), {})
        self.assertEqual(self.post_from(OTHER).code, 403)
        self.assertEqual(self.request("GET", PATH, origin=OTHER).headers.get("vary"), "Origin")

    def test_other_parts_of_the_server_are_not_opened(self) -> None:
        answer = self.request("POST", "/api/topics", b"{}", "application/json", origin=SHOP)
        self.assertEqual(answer.code, 403)


class TestAnyOrigin(CrossOriginTests):
    settings = {"access.control.allow.origin": "*", "access.control.allow.methods": "GET"}

    def test_any_page_reads_without_a_password(self) -> None:
        allowed = self.preflight(OTHER)
        self.assertEqual((allowed["allow-origin"], allowed["allow-methods"]), ("*", "GET"))
        self.assertNotIn("allow-credentials", allowed)
        self.assertEqual(self.post_from(OTHER).code, 200)
