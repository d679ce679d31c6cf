"""Brokers that answer about something else than they were asked about: the visitor reads which broker did so.

Each answer of broker 2 is changed in one way, and each operation that asks it is tried.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
from twisted.internet.testing import StringTransport

from pylogbroker.broker.apis import share_group_heartbeat
from pylogbroker.errors import ErrorCode
from pylogbroker.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.broker.transactions import Producer
from tests.web.test_cluster_views import HERE, GroupTests
from tests.web.test_site import Connection

NAMES = ("partition_index", "index", "partition", "partition_id")


def changed(value: Any, of_list: Callable[[list[Any]], list[Any]], of_name: Callable[[Any], Any]) -> Any:
    """Return a copy of a message with other lists, and with other names of topics, groups and partitions."""
    if isinstance(value, list):
        return of_list([changed(item, of_list, of_name) for item in value])
    if not attrs.has(type(value)):
        return of_name(value) if isinstance(value, str) else value
    fields = {field.name: changed(getattr(value, field.name), of_list, of_name) for field in attrs.fields(type(value))}
    fields |= {name: of_name(fields[name]) for name in NAMES if isinstance(fields.get(name), int)}
    return attrs.evolve(value, **fields)


def lists(of_list: Callable[[list[Any]], list[Any]]) -> Callable[[Any], Any]:
    return lambda answer: changed(answer, of_list, lambda name: name)


LIES: dict[str, Callable[[Any], Any]] = {
    "without rows": lists(lambda rows: []),
    "with each row twice": lists(lambda rows: rows * 2),
    "about something else": lambda answer: changed(answer, lambda rows: rows, lambda name: name + type(name)("7")),
}
READS: dict[str, dict[str, Any]] = {
    "groups": {},
    "group": {"id": "readers"},
    "share-group": {"id": "workers"},
    "preview-reset": {"id": "readers", "to": "earliest"},
    "topics": {},
    "topic": {"name": "clicks"},
    "records": {"topic": "clicks", "partition": 1},
    "producers": {"topic": "clicks", "partition": 1},
    "read-records": {"topic": "clicks", "partition": 1},
    "group-committed": {"id": "readers"},
    "transactions": {},
    "transaction": {"id": "p"},
    "brokers": {},
}
CHANGES: dict[str, dict[str, Any]] = {
    "write-records": {"topic": "clicks", "partition": 1, "value": "v"},
    "commit-offsets": {"id": "readers", "topic": "clicks", "next": "1:0"},
    "reset-group": {"id": "readers", "to": "earliest"},
    "fence-producer": {"id": "p"},
    "abort-transaction": {"topic": "clicks", "partition": 1, "producer_id": 0},
    "create-topic": {"name": "orders"},
    "delete-topic": {"name": "clicks"},
}
PAGES = (
    *("groups", "groups/readers", "groups/readers/reset", "groups/readers/delete", "groups/readers/delete-offsets"),
    "share-groups/workers",
    *("topics", "topics/clicks/partitions", "topics/clicks/groups", "topics/clicks/producers", "topics/clicks/records"),
    *("transactions", "transactions/p", "transactions/p/fence"),
    *("", "brokers", "brokers/2", "brokers/2/settings"),
)
NAMED = {"group", "share-group", "preview-reset", "records", "read-records", "producers", "transaction", *CHANGES} - {
    "abort-transaction"
}
"""Operations that need a row of the answer."""


class LyingBrokerTests(GroupTests):
    """Broker 2 leads partition 1 of `clicks`, coordinates the group and the transactional id, and is the controller."""

    settings = {"api.versions.release": "4.4"}

    def setUp(self) -> None:
        super().setUp()
        self.cluster.create("__transaction_state", [2])
        producer = Producer(self.cluster[2], "p")
        self.assertEqual(producer.init(), ErrorCode.NONE)
        self.assertEqual(producer.add(("clicks", 1)), [ErrorCode.NONE])
        self.assertEqual(producer.send(b"v", topic="clicks", index=1), ErrorCode.NONE)
        request = ShareGroupHeartbeatRequest("workers", "m" * 22, 0, None, ["clicks"])
        joined = self.cluster[2].ask(share_group_heartbeat.handle, request)
        self.assertEqual(joined.error_code, ErrorCode.NONE)
        metadata = self.cluster[1].broker.metadata
        metadata.image = attrs.evolve(metadata.image, controller_id=2)

    def page(self, path: str) -> int:
        """Return the status of a page."""
        connection = Connection(self.factory, StringTransport(HERE, HERE))
        connection.protocol.dataReceived(f"GET /{path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        self.cluster.run()
        return int(connection.transport.value().split()[1])

    def test_reads(self) -> None:
        self.assertEqual(self.wrong(READS), [])

    def test_changes(self) -> None:
        self.assertEqual(self.wrong(CHANGES), [])

    def wrong(self, operations: Mapping[str, dict[str, Any]]) -> list[Any]:
        """Return the operations that believe a lie, or that fail without the name of the broker."""
        wrong = []
        for what, lie in LIES.items():
            self.cluster.lies[2] = lie
            for name, fields in operations.items():
                code, answer = self.request(name, fields)
                may = (404, 503) if name in NAMED else (200, 404, 503)
                if code not in may or (code == 503 and "broker 2" not in answer["error"]):
                    wrong.append((name, what, code, answer))
        return wrong

    def test_every_page_is_shown_or_says_why_not(self) -> None:
        codes = {}
        for what, lie in LIES.items():
            self.cluster.lies[2] = lie
            codes |= {(path, what): self.page(path) for path in PAGES}
        self.assertEqual({key: code for key, code in codes.items() if code not in (200, 404, 503)}, {})
        self.assertEqual(self.flushLoggedErrors(), [])

    def test_the_pages_are_shown_without_a_lie(self) -> None:
        self.assertEqual({path: code for path in PAGES if (code := self.page(path)) != 200}, {})
