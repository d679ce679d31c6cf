"""Delegation tokens by the admin client, on a broker in memory: its handlers answer the requests."""

from __future__ import annotations

from typing import Any, ClassVar, cast

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from pylogbroker.broker.apis import APIS
from pylogbroker.client.admin.reactor_waits import ReactorWaits
from pylogbroker.client.admin.routing import Router
from pylogbroker.client.admin.tokens import TokenAdmin
from pylogbroker.errors import ConfigError, ErrorCode, KafkaError
from pylogbroker.rpc.backoff import Backoff
from pylogbroker.rpc.retries import Pauses
from pylogbroker.wire import Request
from tests.broker.nodes import START, Node, NodeTests

HOUR = 3_600_000
BEGAN = int(START * 1000)
ALICE, BOB = "User:alice", "User:bob"


@attrs.frozen
class NodeRouter:
    """Sends requests of a principal to a node."""

    node: Node
    principal: str
    version: int | None = None
    waits: ReactorWaits = attrs.field(factory=lambda: ReactorWaits(Pauses(Clock()), Backoff.fixed(1.0), 1.0))

    async def anywhere(self, request: Request) -> Any:
        handle = next(each for each in APIS if each.key == request.api_key).handle
        return self.node.ask(handle, request, self.version, principal=self.principal)


def admin(node: Node, principal: str = ALICE, version: int | None = None) -> TokenAdmin:
    return TokenAdmin(cast(Router, NodeRouter(node, principal, version)))


class WithTokens(NodeTests):
    settings: ClassVar[dict[str, str]] = {"delegation.token.secret.key": "the secret key"}

    def fails(self, work: Deferred[Any], code: ErrorCode) -> None:
        self.assertIs(self.failureResultOf(work, KafkaError).value.code, code)


class TokenAdminTests(WithTokens):
    def test_tokens(self) -> None:
        alice, bob = admin(self.node), admin(self.node, BOB)
        issued = self.successResultOf(alice.create(renewers=[BOB, BOB], lifetime_ms=2 * HOUR))
        token = issued.token
        self.assertEqual((token.owner, token.requester, token.renewers), (ALICE, ALICE, (BOB,)))
        self.assertEqual((token.issued_ms, token.expires_ms, token.max_ms), (BEGAN, BEGAN + 2 * HOUR, BEGAN + 2 * HOUR))
        self.assertEqual(self.successResultOf(alice.describe()), (issued,))
        self.assertEqual(self.successResultOf(bob.describe([BOB])), (issued,))
        self.assertEqual(self.successResultOf(bob.describe(["User:carol"])), ())
        self.assertEqual(self.successResultOf(bob.renew(issued.hmac, HOUR)), BEGAN + HOUR)
        self.assertEqual(self.successResultOf(bob.renew(issued.hmac)), BEGAN + 2 * HOUR)
        self.assertEqual(self.successResultOf(alice.expire(issued.hmac, 1000)), BEGAN + 1000)
        self.assertEqual(self.successResultOf(alice.expire(issued.hmac)), BEGAN)
        self.assertEqual(self.successResultOf(alice.describe()), ())
        self.fails(alice.renew(issued.hmac), ErrorCode.DELEGATION_TOKEN_NOT_FOUND)

    def test_tokens_of_others(self) -> None:
        issued = self.successResultOf(admin(self.node).create(BOB))
        self.assertEqual((issued.token.owner, issued.token.requester), (BOB, ALICE))
        self.fails(admin(self.node).renew(issued.hmac), ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)

    def test_older_brokers_name_no_requester(self) -> None:
        older = admin(self.node, version=2)
        issued = self.successResultOf(older.create())
        self.assertEqual((issued.token.owner, issued.token.requester), (ALICE, ALICE))
        self.assertEqual(self.successResultOf(older.describe()), (issued,))

    def test_invalid_arguments(self) -> None:
        tokens = admin(self.node)
        for work in (tokens.create("alice"), tokens.create(renewers=["alice"]), tokens.describe([":x"])):
            self.assertIn("expected User:name", str(self.failureResultOf(work, ConfigError).value))
        self.failureResultOf(tokens.renew(b"", -5), ConfigError)
