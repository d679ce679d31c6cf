"""Transactions on the page: open ones with their age, partitions, producers, and how to end them."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from pylogbroker.errors import ErrorCode
from pylogbroker.security.acls.bindings import CLUSTER_NAME, AclOperation, AclResourceType
from pylogbroker.web.formats import duration_text
from pylogbroker.web.transaction_pages import state_of
from pylogbroker.web.transaction_views import TransactionRow
from pylogbroker.web.visitors import Visitor
from pylogbroker.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from tests.broker.transactions import TransactionTests
from tests.web.test_changes import ChangeTests
from tests.web.test_pages import HOSTILE, Parsed
from tests.web.test_views import NOW
from tests.web.test_visitors import AnonymousTests


class TransactionViewTests(ChangeTests, TransactionTests):
    def ids(self, query: str = "") -> list[str]:
        found = self.ask(f"transactions?{query}")
        self.assertTrue(found["is_complete"])
        return [each["id"] for each in found["transactions"]]


class TestTransactions(TransactionViewTests):
    def test_open_transactions_are_listed_with_their_age(self) -> None:
        self.producer("idle")
        self.begun(b"v", transactional_id="first")
        self.node.clock.advance(30)
        self.begun(b"v", transactional_id="second")
        self.node.clock.advance(2.5)
        first, second = self.ask("transactions")["transactions"]
        self.assertEqual((first["id"], first["state"], first["age_ms"]), ("first", "Ongoing", 32_500))
        self.assertEqual((second["id"], second["began"], second["age_ms"]), ("second", NOW + 30_000, 2_500))
        self.assertEqual((second["partition_count"], second["timeout_ms"]), (1, 60_000))
        self.assertEqual(self.ids("longer_than=10"), ["first"])
        self.assertEqual(self.ids("start=1"), ["second"])
        self.assertEqual(self.ids("search=ec"), ["second"])
        self.assertEqual(self.ids("state=all"), ["first", "idle", "second"])
        idle = self.ask("transaction?id=idle")
        self.assertEqual((idle["state"], idle["age_ms"], idle["partitions"]), ("Empty", None, []))
        found = self.ask("transaction?id=first")
        self.assertEqual((found["age_ms"], found["partitions"]), (32_500, [{"topic": "t", "partition": 0}]))
        self.ask("transaction?id=nobody", 404)
        self.ask("transactions?state=some", 400)

    def test_the_list_has_pages_and_an_order(self) -> None:
        for number in range(3):
            self.producer(f"idle-{number}")
        self.begun(b"v", transactional_id="open")
        with patch("pylogbroker.web.paging.ROWS_MAX", 2):
            page = Parsed(self.connect().get("/transactions?state=all&sort=-producer").body)
            self.assertEqual([row[0][:6] for row in page.rows], ["open1 ", "idle-2"])
            self.assertIn("/transactions?page=2&state=all&sort=-producer", page.links)
            page = Parsed(self.connect().get("/transactions?state=all&page=9").body)
            self.assertEqual([row[0][:6] for row in page.rows], ["idle-2", "open1 "])
        self.assertIn("sort must be one of", self.connect().get("/transactions?sort=age").body)

    def test_stuck_transactions_of_other_pages_are_named(self) -> None:
        self.begun(b"v", transactional_id="stuck")
        self.begun(b"v", transactional_id="also")
        with patch("pylogbroker.web.transaction_pages.is_stuck", lambda row: row["id"] == "stuck"):
            with patch("pylogbroker.web.paging.ROWS_MAX", 1):
                page = Parsed(self.connect().get("/transactions").body)
                self.assertEqual([row[0][:4] for row in page.rows], ["also"])
                self.assertIn("1 transaction is open for longer than its timeout.", page.text)
                self.assertIn("/transactions/stuck", page.links)
            with patch("pylogbroker.web.transaction_pages._LOOKED_AT_MAX", 1):
                page = Parsed(self.connect().get("/transactions").body)
        self.assertIn("1 of 2 open transactions were looked at", page.text)

    def test_ids_that_cannot_be_described_are_missing(self) -> None:
        self.begun(b"v")
        for error, is_complete in (("TRANSACTIONAL_ID_NOT_FOUND", True), ("COORDINATOR_LOAD_IN_PROGRESS", False)):
            failed = [TransactionState(ErrorCode[error], "p")]
            answer = DescribeTransactionsResponse(transaction_states=failed)
            with patch("pylogbroker.web.transaction_views.Visitor.ask", self._asking(answer)):
                self.assertIs(self.ask("transactions")["is_complete"], is_complete)

    def _asking(self, answer: DescribeTransactionsResponse) -> Any:
        """Return what answers requests in place of Visitor.ask."""
        ask = Visitor.ask

        async def asked(visitor: Visitor, request: Any, *arguments: Any) -> Any:
            is_described = isinstance(request, DescribeTransactionsRequest)
            return answer if is_described else await ask(visitor, request, *arguments)

        return asked

    def test_producers_have_pages(self) -> None:
        for number in range(3):
            self.begun(b"v", transactional_id=f"p{number}")
        with patch("pylogbroker.web.paging.ROWS_MAX", 2):
            page = Parsed(self.connect().get("/topics/t/producers?page=2").body)
        self.assertEqual(len(page.rows), 1)
        self.assertIn("3 transactions are open here. Readers of committed records wait at offset 0.", page.text)

    def test_fence(self) -> None:
        producer = self.begun(b"v")
        self.assertEqual(self.submit("transactions/p/fence", confirm="q").code, 400)
        connection, body = self.connect(), b"{}"
        head = b"POST /api/transactions/p/fence HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        connection.protocol.dataReceived(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.node.clock.advance(1)
        self.assertIn(b" 200 OK\r\n", connection.transport.value())
        self.assertEqual(self.ids(), [])
        self.assertEqual(self.committed(), [])
        self.assertNotEqual(producer.end(True), ErrorCode.NONE)
        self.change("fence-producer", 404, id="nobody")
        self.assertEqual(self.ids("state=all"), ["p"])

    def test_fencing_keeps_the_timeout_of_a_transactional_id(self) -> None:
        """Another one might be above transaction.max.timeout.ms."""
        self.producer("p", timeout_ms=7000)
        self.change("fence-producer", id="p")
        self.assertEqual(self.ask("transaction?id=p")["timeout_ms"], 7000)

    def test_abort_in_a_partition(self) -> None:
        producer = self.begun(b"v")
        self.begun(b"w", transactional_id="other")
        rows = self.ask("producers?topic=t&partition=0")["producers"]
        self.assertEqual([(row["transaction_start"], row["last_sequence"]) for row in rows], [(0, 0), (1, 0)])
        self.assertEqual(rows[0]["producer_id"], producer.producer_id)
        fields: dict[str, Any] = {"topic": "t", "partition": 0, "producer_id": producer.producer_id}
        self.change("abort-transaction", **fields)
        starts = {row["producer_id"]: row["transaction_start"] for row in self.ask("producers?topic=t")["producers"]}
        self.assertEqual((starts[producer.producer_id], 1 in starts.values()), (None, True))
        self.assertIn("no open transaction", self.change("abort-transaction", 404, **fields)["error"])
        self.ask("producers?topic=t&partition=5", 404)

    def test_hostile_ids(self) -> None:
        self.begun(b"v", transactional_id=HOSTILE)
        for path in ("/transactions", "/topics/t/producers"):
            self.assertEqual(self.connect().get(path).code, 200)
        page = Parsed(self.connect().get("/transactions").body)
        self.assertIn(HOSTILE, page.text)
        [link] = [each for each in page.links if each.startswith("/transactions/")]
        self.assertIn(HOSTILE, Parsed(self.connect().get(link).body).text)

    def test_a_stuck_transaction_says_what_to_do(self) -> None:
        self.begun(b"v")
        page = Parsed(self.connect().get("/transactions/p").body)
        self.assertIn("It is open for 0 s. It is aborted after 1 min without an end.", page.text)
        row: TransactionRow = {
            **{"id": "p", "coordinator": 1, "producer_id": 1, "producer_epoch": 0, "began": NOW, "state": "Ongoing"},
            **{"timeout_ms": 60_000, "age_ms": 7_200_000, "partition_count": 3},
        }
        self.assertEqual((state_of(row).kind, state_of(row).title), ("bad", "It is stuck."))
        self.assertIn("in 3 partitions. Shut out its producer to abort it.", state_of(row).detail)
        self.assertIn("cannot be written", state_of({**row, "state": "PrepareCommit"}).title)
        self.assertEqual(state_of({**row, "age_ms": None}).kind, "ok")

    def test_ends_are_asked_for_by_name(self) -> None:
        producer = self.begun(b"v")
        self.assertIn("To shut it out", Parsed(self.connect().get("/transactions/p/fence").body).text)
        place = f"topics/t/producers/abort?partition=0&producer_id={producer.producer_id}"
        page = Parsed(self.connect().get("/topics/t/producers").body)
        self.assertIn(f"/{place}", page.links)
        self.assertIn("1 transaction is open here. Readers of committed records wait at offset 0.", page.text)
        self.assertIn("Only if it hangs", Parsed(self.connect().get(f"/{place}").body).text)
        fields = {"producer_id": str(producer.producer_id), "partition": "0"}
        self.assertEqual(self.submit("topics/t/producers/abort", **fields, confirm="p").code, 400)
        answer = self.submit("topics/t/producers/abort", **fields, confirm="t")
        self.assertEqual((answer.code, answer.headers["location"]), (303, "/topics/t/producers?partition=0"))
        self.assertEqual(self.connect().get(f"/{place}").code, 404)

    def test_old_addresses_lead_here(self) -> None:
        for old, new in (
            ("/transaction?id=a%2Fb", "/transactions/a%2Fb"),
            ("/producers?topic=t&partition=2", "/topics/t/producers?partition=2"),
        ):
            self.assertEqual(self.connect().get(old).headers["location"], new)

    def test_durations(self) -> None:
        shown = [duration_text(each) for each in (None, 1500, 60_000, 3_725_000, 90_000_000)]
        self.assertEqual(shown, ["", "1.5 s", "1 min", "1 h 2 min", "1 d 1 h"])


class TestRights(AnonymousTests, TransactionViewTests):
    settings = {**AnonymousTests.settings, **TransactionTests.settings}

    def test_ids_and_topics_are_hidden(self) -> None:
        self.allow(AclOperation.WRITE, AclResourceType.TOPIC, "t")
        producer = self.begun(b"v")
        self.deny_all()
        self.assertEqual(self.ids(), [])
        self.ask("transaction?id=p", 403)
        self.ask("producers?topic=t", 403)
        self.allow(AclOperation.DESCRIBE, AclResourceType.TRANSACTIONAL_ID, "p")
        self.assertEqual(self.ids(), ["p"])
        self.assertEqual(self.ask("transaction?id=p")["partitions"], [])
        self.allow(AclOperation.READ, AclResourceType.TOPIC, "t")
        self.assertEqual(len(self.ask("transaction?id=p")["partitions"]), 1)
        fields: dict[str, Any] = {"topic": "t", "partition": 0, "producer_id": producer.producer_id}
        self.change("abort-transaction", 403, **fields)
        self.change("fence-producer", 403, id="p")
        self.allow(AclOperation.ALTER, AclResourceType.CLUSTER, CLUSTER_NAME)
        self.change("abort-transaction", **fields)
