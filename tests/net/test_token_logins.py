"""Connections by a delegation token: who their client is, what it may not do, and how long the session lasts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pylogbroker.errors import ErrorCode
from pylogbroker.security.delegation.tokens import DelegationToken, IssuedToken
from pylogbroker.security.sasl.client import ScramClient
from pylogbroker.wire.messages.create_delegation_token import CreateDelegationTokenRequest
from pylogbroker.wire.messages.describe_delegation_token import DescribeDelegationTokenRequest
from pylogbroker.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from pylogbroker.wire.messages.list_groups import ListGroupsRequest
from pylogbroker.wire.messages.renew_delegation_token import RenewDelegationTokenRequest
from pylogbroker.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from pylogbroker.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.broker.trees import now
from tests.net.sasl_peers import Peer, SaslNodeTests

HOUR = 3_600_000
NOT_ALLOWED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
SCRAM = "SCRAM-SHA-256"
BY_TOKEN = ",tokenauth=true"


class TokenLoginTests(SaslNodeTests):
    extra: ClassVar[Mapping[str, str]] = {"delegation.token.secret.key": "the secret key"}

    def create(self, owner: str = "User:bob", lifetime_ms: int = HOUR) -> IssuedToken:
        return now(self.node.broker.tokens.create(owner, "User:alice", [], lifetime_ms))

    def log_in(self, peer: Peer, user: str, password: str, extensions: str = BY_TOKEN) -> Any:
        """Authenticate by SCRAM, as far as it goes; return the last answer."""
        client = ScramClient(SCRAM, user, password, extensions)
        self.assertEqual(peer.ask(SaslHandshakeRequest(SCRAM), 1).error_code, 0)
        answer = b""
        while (message := client.respond(answer)) is not None:
            peer.send((SaslAuthenticateRequest(message), 2))
            self.node.clock.advance(0.11)
            self.node.clock.advance(0)
            found = peer.read(SaslAuthenticateRequest(), 2)
            if found.error_code:
                self.assertEqual(peer.transport.closed, "after sending")
                return found
            answer = bytes(found.auth_bytes)
        return found

    def by_token(self, issued: IssuedToken) -> tuple[Peer, Any]:
        peer = Peer(self)
        return peer, self.log_in(peer, issued.token.token_id, issued.password)

    def test_the_client_is_the_owner(self) -> None:
        peer, answer = self.by_token(self.create())
        self.assertEqual((answer.error_code, answer.session_lifetime_ms), (0, HOUR - 110))
        self.assertEqual(peer.principal, "User:bob")
        self.assertEqual(peer.ask(ListGroupsRequest(), 4).error_code, 0)

    def test_a_client_with_a_token_cannot_use_tokens(self) -> None:
        issued = self.create("User:alice")
        peer, _ = self.by_token(issued)
        self.assertEqual(peer.ask(CreateDelegationTokenRequest(None, None), 3).error_code, NOT_ALLOWED)
        self.assertEqual(peer.ask(RenewDelegationTokenRequest(issued.hmac, -1), 2).error_code, NOT_ALLOWED)
        self.assertEqual(peer.ask(ExpireDelegationTokenRequest(issued.hmac, -1), 2).error_code, NOT_ALLOWED)
        self.assertEqual(peer.ask(DescribeDelegationTokenRequest(None), 3).error_code, NOT_ALLOWED)
        with_password = Peer(self)
        self.log_in(with_password, "alice", "secret", "")
        self.assertEqual(with_password.ask(CreateDelegationTokenRequest(None, None), 3).error_code, 0)

    def test_invalid_token_logins_fail(self) -> None:
        issued = self.create()
        token_id, password = issued.token.token_id, issued.password
        for user, secret, extensions in (
            (token_id, "wrong", BY_TOKEN),
            (token_id, password, ""),
            (token_id, password, ",tokenauth=false"),
            ("alice", "secret", BY_TOKEN),
            ("bob", password, BY_TOKEN),
            ("AAAAAAAAAAAAAAAAAAAAAA", password, BY_TOKEN),
        ):
            peer = Peer(self)
            answer = self.log_in(peer, user, secret, extensions)
            self.assertEqual(answer.error_code, ErrorCode.SASL_AUTHENTICATION_FAILED, (user, extensions))
            self.assertEqual(peer.principal, "User:ANONYMOUS")

    def test_unknown_extensions_are_ignored(self) -> None:
        self.assertEqual(self.log_in(Peer(self), "alice", "secret", ",other=1").error_code, 0)
        issued = self.create()
        extensions = f",other=1{BY_TOKEN.upper().replace('TOKENAUTH', 'tokenauth')}"
        answer = self.log_in(Peer(self), issued.token.token_id, issued.password, extensions)
        self.assertEqual(answer.error_code, 0)

    def test_an_expired_and_a_deleted_token(self) -> None:
        expired, deleted = self.create(), self.create()
        now(self.node.broker.tokens.expire("User:bob", deleted.hmac, -1))
        self.assertEqual(self.by_token(deleted)[1].error_code, ErrorCode.SASL_AUTHENTICATION_FAILED)
        now(self.node.broker.tokens.expire("User:bob", expired.hmac, 1000))
        self.node.clock.advance(1.001)
        self.assertEqual(self.by_token(expired)[1].error_code, ErrorCode.SASL_AUTHENTICATION_FAILED)

    def test_the_session_ends_with_the_token_unless_it_is_renewed(self) -> None:
        issued = self.create()
        peer, _ = self.by_token(issued)
        now(self.node.broker.tokens.renew("User:bob", issued.hmac, HOUR // 2))
        self.node.clock.advance(60)
        answer = self.log_in(peer, issued.token.token_id, issued.password)
        self.assertEqual((answer.error_code, answer.session_lifetime_ms), (0, HOUR // 2 - 60_110))
        self.assertEqual(peer.ask(ListGroupsRequest(), 4).error_code, 0)
        self.node.clock.advance(HOUR / 2000 - 60)
        peer.send((ListGroupsRequest(), 4))
        self.assertEqual((peer.frames(), peer.transport.closed), ([], "at once"))

    def test_authenticating_again(self) -> None:
        """A password of the same user lifts the restriction; another user is rejected."""
        peer, _ = self.by_token(self.create("User:alice"))
        self.node.clock.advance(2)
        self.assertEqual(self.log_in(peer, "alice", "secret", "").error_code, 0)
        self.assertEqual(peer.ask(CreateDelegationTokenRequest(None, None), 3).error_code, 0)
        peer, _ = self.by_token(self.create("User:alice"))
        bobs = self.create("User:bob")
        self.node.clock.advance(2)
        answer = self.log_in(peer, bobs.token.token_id, bobs.password)
        self.assertEqual(answer.error_code, ErrorCode.SASL_AUTHENTICATION_FAILED)

    def test_a_token_of_the_tree(self) -> None:
        """A name with a colon is a name; the password is not in the tree."""
        issued = self.create("User:a:b")
        peer, _ = self.by_token(issued)
        self.assertEqual(peer.principal, "User:a:b")
        data = now(self.node.tree.get(f"/delegation_token/tokens/{issued.token.token_id}")).data or b""
        self.assertNotIn(issued.password.encode(), data)
        self.assertIsInstance(issued.token, DelegationToken)


class WithoutTokensTests(SaslNodeTests):
    def test_tokens_that_are_not_enabled(self) -> None:
        peer = Peer(self)
        peer.ask(SaslHandshakeRequest(SCRAM), 1)
        first = ScramClient(SCRAM, "alice", "secret", BY_TOKEN).respond(b"")
        assert first is not None
        peer.send((SaslAuthenticateRequest(first), 2))
        self.node.clock.advance(0.11)
        self.node.clock.advance(0)
        answer = peer.read(SaslAuthenticateRequest(), 2)
        self.assertEqual(answer.error_code, ErrorCode.SASL_AUTHENTICATION_FAILED)
