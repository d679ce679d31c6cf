"""Handshakes of TLS and messages of SASL that are changed at random: none gets in, and none fails in another way.

`make quick` has some hundred of each kind, `--thorough` a million together.
"""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import attrs
import pytest

from pylogbroker.errors import KafkaError
from pylogbroker.interfaces import BearerToken
from pylogbroker.rpc.authentication import authenticate
from pylogbroker.rpc.client_protocol import ClientProtocol
from pylogbroker.security.sasl.authentication import AuthenticationFailed
from pylogbroker.security.sasl.client import ClientMechanism, OauthBearerClient, PlainClient, ScramClient
from pylogbroker.security.sasl.credentials import Credentials
from pylogbroker.security.sasl.scram import ScramServer, TokenLogin
from pylogbroker.security.sasl.users import ScramKeys, Users
from pylogbroker.security.tls.contexts import client_context, server_context
from pylogbroker.security.tls.engine import TlsEngine
from pylogbroker.security.tls.failures import TlsFailed
from pylogbroker.wire import Request, UnsupportedVersion, WireError, response_codec
from pylogbroker.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from pylogbroker.wire.messages.list_groups import ListGroupsRequest
from pylogbroker.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from pylogbroker.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.broker.log_lines import logged_lines
from tests.net.fakes import frame
from tests.net.sasl_peers import Peer, SaslNodeTests, raw
from tests.security.engines import EnginePair, trusting, with_key
from tests.security.mutations import changed, pieces
from tests.security.tokens import Issuer, first_message
from tests.support.budget import Budget
from tests.support.certificates import tls_settings
from tests.support.examples import examples

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER", "GSSAPI")
ISSUER = Issuer()
EXPIRED = ISSUER.token(sub="alice", exp=1_600_000_000)
CLIENT = tls_settings(**trusting())
VERSIONS = ApiVersionsResponse(api_keys=[ApiVersion(18, 0, 4), ApiVersion(17, 0, 1), ApiVersion(36, 0, 2)])
EMPTY = SaslAuthenticateResponse()
CHALLENGE, SIGNATURE = b"r=abcdef,s=c2FsdA==,i=4096", b"v=" + base64.b64encode(bytes(32))
ANSWERS: Mapping[str, tuple[SaslHandshakeResponse | SaslAuthenticateResponse, ...]] = {
    mechanism: (SaslHandshakeResponse(mechanisms=[mechanism]), *(attrs.evolve(EMPTY, auth_bytes=each) for each in sent))
    for mechanism, sent in {
        "SCRAM-SHA-256": (CHALLENGE, SIGNATURE),
        "PLAIN": (b"",),
        "OAUTHBEARER": (b'{"status":"invalid_token"}', b""),
    }.items()
}
LISTENER_CASES, PROOF_CASES, CLIENT_CASES, TLS_CASES = (
    300_000,
    100_000,
    500_000,
    50_000,
)  # of --thorough; those of TLS twice


class ListenerTests(SaslNodeTests):
    """No client here knows a password, or has a token that is valid."""

    budget: Budget
    extra: ClassVar[Mapping[str, str]] = {"sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER"}

    @pytest.fixture(autouse=True)
    def _with_budget(self, budget: Budget, tmp_path: Path) -> None:
        self.budget = budget
        keys = tmp_path / "keys"
        keys.write_bytes(ISSUER.jwks())
        self.extra = {**self.extra, "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri()}  # type: ignore[misc]

    def test_no_client_without_credentials_gets_in(self) -> None:
        random = self.budget.chance("listener")
        with logged_lines() as lines:
            for _ in range(self.budget.of(examples(3000), LISTENER_CASES)):
                sent = handshake(random)
                self.assertEqual(self.principal_after(random, sent), "User:ANONYMOUS", sent)
                self.assertEqual(self.flushLoggedErrors(), [], sent)
                self.assertFalse([line for line in lines if "failed" in line], (sent, lines))
                lines.clear()

    def principal_after(self, random: Random, sent: bytes) -> str:
        peer = Peer(self)
        for piece in pieces(random, sent):
            if not peer.transport.closed:
                peer.send(piece)
                self.node.clock.advance(0.11)  # failures are answered late
        principal = peer.principal
        peer.protocol.connectionLost()
        return principal


def handshake(random: Random) -> bytes:
    """Return requests of a client that has begun to authenticate, in part changed."""
    mechanism, version = random.choice(MECHANISMS), random.randint(0, 1)
    sent = [(ApiVersionsRequest(), random.randint(0, 4))] * random.randint(0, 1)
    sent += [(SaslHandshakeRequest(mechanism), version)] * random.choice((0, 1, 1, 1, 1, 2))
    parts = [frame(request, number, 1) for request, number in sent]
    for token in tokens(random, mechanism)[: random.randint(1, 3)]:
        token = changed(random, token)
        parts.append(frame(SaslAuthenticateRequest(token), random.randint(0, 2), 1) if version else raw(token))
    parts.append(frame(ListGroupsRequest(), 4, 1))
    target = random.randrange(len(parts) * 2)  # in half of the cases, all frames are well-formed
    return b"".join(changed(random, part) if number == target else part for number, part in enumerate(parts))


def tokens(random: Random, mechanism: str) -> list[bytes]:
    user = random.choice(("alice", "nobody"))
    if mechanism.startswith("SCRAM"):
        proof = base64.b64encode(random.randbytes(32)).decode()
        return [f"n,,n={user},r=abc".encode(), f"c=biws,r=abc,p={proof}".encode()]
    if mechanism == "OAUTHBEARER":
        first = first_message(random.choice((EXPIRED, "a")), random.choice(("", user)), extension="x")
        return [first, b"\1"]
    return [f"\0{user}\0wrong".encode()] * 2


def test_no_proof_is_right_by_chance(budget: Budget) -> None:
    """Both messages of SCRAM, of a client that knows another password; the second one fits the server's nonce.

    The user is also the id of a delegation token.
    """
    random, mechanism = budget.chance("proofs"), "SCRAM-SHA-256"
    users = Users({}, {(mechanism, "alice"): ScramKeys.derive(mechanism, "secret", b"salt", 4096)}, b"secret")
    wrong = ScramKeys.derive(mechanism, "wrong", b"salt", 4096)
    for _ in range(budget.of(examples(2000), PROOF_CASES)):
        server = ScramServer(users, mechanism, lambda: "def", lambda _: TokenLogin(users, "alice", None))
        proof = base64.b64encode(wrong.stored_key[: random.choice((32, 32, 20))]).decode()
        user = random.choice(("alice", "nobody"))
        extensions = random.choice(("", ",tokenauth=true"))
        for message in (f"n,,n={user},r=abc{extensions}", f"c=biws,r=abcdef,p={proof}"):
            with contextlib.suppress(AuthenticationFailed):
                server.respond(changed(random, message.encode()) if random.random() < 0.7 else message.encode())
        assert server.user is None


class Provider:
    def token(self) -> BearerToken:
        return BearerToken(EXPIRED)


def test_no_answers_of_a_server_fool_a_client(budget: Budget) -> None:
    """A client of SCRAM accepts nobody who does not know the keys of its password."""
    random = budget.chance("answers")
    makers: dict[str, Callable[[], ClientMechanism]] = {
        "SCRAM-SHA-256": lambda: ScramClient("SCRAM-SHA-256", "alice", "secret", make_nonce=lambda: "abc"),
        "PLAIN": lambda: PlainClient("alice", "secret"),
        "OAUTHBEARER": lambda: OauthBearerClient(Provider()),
    }
    for _ in range(budget.of(examples(3000), CLIENT_CASES)):
        mechanism = random.choice(tuple(makers))
        is_accepted = talk(random, Credentials(mechanism, makers[mechanism]))
        assert not (is_accepted and mechanism.startswith("SCRAM"))


def talk(random: Random, credentials: Credentials) -> bool:
    """Answer a client with messages that are changed in part; return whether it is content with the server."""
    protocol, answers = ClientProtocol("there:9092", "me"), list(ANSWERS[credentials.mechanism])
    try:
        while not protocol.is_negotiated:
            protocol.handle_response(answered(random, protocol, *protocol.next_request(), VERSIONS))
        steps = authenticate(protocol, credentials)
        step = next(steps)
        while True:
            if isinstance(step, Request):
                step = steps.send(answered(random, protocol, step, None, answers.pop(0) if answers else EMPTY))
                continue
            try:
                result = step()
            except AuthenticationFailed as error:
                step = steps.throw(error)
            else:
                step = steps.send(result)
    except StopIteration:
        return True
    except (WireError, KafkaError, UnsupportedVersion):
        return False


def answered(random: Random, protocol: ClientProtocol, request: Request, version: int | None, answer: Any) -> Any:
    """Decode an answer as the client does; its token, or its bytes, are changed at random."""
    if isinstance(answer, SaslAuthenticateResponse):
        answer = attrs.evolve(answer, auth_bytes=changed(random, bytes(answer.auth_bytes)))
    version = protocol.version_of(type(request)) if version is None else version
    correlation_id, key = protocol.encoded, request.api_key
    encoded = protocol.encode(request, version)
    sent = b"".join(map(bytes, response_codec(key, version).frame(correlation_id, answer)))[4:]
    return encoded.decode(memoryview(changed(random, sent) if random.random() < 0.1 else sent))


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_handshakes_of_tls(budget: Budget, version: str) -> None:
    """Each flight is fed to a new engine, changed and in pieces; it ends with a cause, or waits for more."""
    random = budget.chance(f"handshakes {version}")
    for_server, for_client = flights(version)
    server, client = server_context(with_key()), client_context(CLIENT)
    for _ in range(budget.of(examples(600), TLS_CASES)):
        is_server = random.random() < 0.5
        sent = random.choice(for_server if is_server else for_client)
        engine = TlsEngine(
            server if is_server else client, is_server=is_server, host=None if is_server else "localhost"
        )
        with contextlib.suppress(TlsFailed):
            if not is_server:
                engine.start()
            for piece in pieces(random, changed(random, sent)):
                engine.feed(piece)
                assert not engine.is_established
                assert engine.read() == b""


def flights(version: str) -> tuple[list[bytes], list[bytes]]:
    """Return what a client and a server send in a handshake: first flights, and all that each sends."""
    pair, sent = EnginePair.of(with_key(), tls_settings(**trusting(), ssl_enabled_protocols=(version,))), ([], [])
    pair.client.start()
    for _ in range(3):
        for sender, receiver, messages in ((pair.client, pair.server, sent[0]), (pair.server, pair.client, sent[1])):
            message = sender.take_output()
            if message:
                messages.append(message)
                receiver.feed(message)
    assert pair.server.is_established
    return [sent[0][0], b"".join(sent[0])], [sent[1][0], b"".join(sent[1])]
