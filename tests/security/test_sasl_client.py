"""Mechanisms of the client's side, beside the transcript of RFC 7677, RFC 7628's message and this package's servers."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import pytest
from zope.interface import implementer

from pylogbroker.client.settings import CLIENT, read
from pylogbroker.config.mechanisms import SCRAM_SHA_256, SCRAM_SHA_512
from pylogbroker.errors import ConfigError
from pylogbroker.interfaces import BearerToken, ITokenProvider
from pylogbroker.security.sasl.authentication import AuthenticationFailed
from pylogbroker.security.sasl.client import OauthBearerClient, PlainClient, ScramClient
from pylogbroker.security.sasl.credentials import Credentials
from pylogbroker.security.sasl.plain import PlainServer
from pylogbroker.security.sasl.scram import ScramServer
from pylogbroker.security.sasl.users import Users

RFC_CHALLENGE = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
PLAIN_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required"
USER = {"sasl.username": "alice", "sasl.password": "secret"}


def rfc_client() -> ScramClient:
    client = ScramClient(SCRAM_SHA_256, "user", "pencil", "", lambda: "rOprNGfwEbeRWgbNEkqO")
    assert client.respond(b"") == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    return client


def test_the_transcript_of_rfc_7677() -> None:
    client = rfc_client()
    assert client.respond(RFC_CHALLENGE) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert client.respond(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=") is None
    assert "pencil" not in repr(client)


@pytest.mark.parametrize("mechanism", [SCRAM_SHA_256, SCRAM_SHA_512])
def test_client_and_server_agree(mechanism: str) -> None:
    name = "a,b=c\N{LATIN SMALL LETTER U WITH DIAERESIS}"
    server = ScramServer(Users({name: "p\N{EURO SIGN}"}, {}, b"secret"), mechanism)
    client = ScramClient(mechanism, name, "p\N{EURO SIGN}")
    answer, messages = b"", 0
    while (token := client.respond(answer)) is not None:
        answer, messages = server.respond(token), messages + 1
    assert (server.user, messages) == (name, 2)
    plain = PlainServer(Users({name: "x"}, {}, b"secret"))
    other = PlainClient(name, "x")
    first = other.respond(b"")
    assert first is not None
    assert other.respond(plain.respond(first)) is None
    assert plain.user == name


@pytest.mark.parametrize(
    ("challenge", "reason"),
    [
        (b"", "malformed"),
        (b"\xff", "UTF-8"),
        (RFC_CHALLENGE.replace(b"i=4096", b"i=4095"), "4095 iterations"),
        (RFC_CHALLENGE.replace(b"i=4096", b"i=1000001"), "1000001 iterations"),
        (RFC_CHALLENGE.replace(b"rOpr", b"rOps"), "nonce"),
        (RFC_CHALLENGE.replace(b"%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0", b""), "nonce"),
        (RFC_CHALLENGE.replace(b"s=W", b"s="), "base64"),
        (b"m=x," + RFC_CHALLENGE, "malformed"),
    ],
)
def test_challenges_that_are_not_accepted(challenge: bytes, reason: str) -> None:
    with pytest.raises(AuthenticationFailed, match=reason):
        rfc_client().respond(challenge)


@pytest.mark.parametrize(
    "final", [b"", b"v=", b"v=!", b"v=\xc3\xa9", b"e=other-error", b"v=" + base64.b64encode(bytes(32))]
)
def test_a_server_that_does_not_know_the_keys(final: bytes) -> None:
    """Reject even a server that ends the authentication without its signature."""
    client = rfc_client()
    client.respond(RFC_CHALLENGE)
    with pytest.raises(AuthenticationFailed):
        client.respond(final)


@implementer(ITokenProvider)
class Tokens:
    def __init__(self, value: Any, **extensions: str) -> None:
        self.value, self.extensions = value, extensions

    def token(self) -> BearerToken:
        if isinstance(self.value, Exception):
            raise self.value
        return BearerToken(self.value, self.extensions) if isinstance(self.value, str) else self.value


def test_tokens() -> None:
    client = OauthBearerClient(Tokens("a.b.c", traceId="1 2"))
    assert client.respond(b"") == b"n,,\x01auth=Bearer a.b.c\x01traceId=1 2\x01\x01"
    assert client.respond(b"") is None
    rejecting = OauthBearerClient(Tokens("a.b.c"))
    assert rejecting.respond(b"") == b"n,,\x01auth=Bearer a.b.c\x01\x01"
    assert rejecting.respond(b'{"status":"invalid_token"}') == b"\x01"
    assert rejecting.reason == "the token is rejected: invalid_token"
    for answer in (b"", b"{}"):
        with pytest.raises(AuthenticationFailed, match="invalid_token"):
            rejecting.respond(answer)


@pytest.mark.parametrize(
    ("provider", "reason"),
    [
        (Tokens(OSError("gone")), "OSError: gone"),
        (Tokens(b"a.b.c"), "something else than a BearerToken"),
        (Tokens("a\x01auth=b"), "characters"),
        (Tokens("a", auth="b"), "'auth' cannot be sent"),
        (Tokens("a", x="b\x01"), "'x' cannot be sent"),
    ],
)
def test_tokens_that_cannot_be_sent(provider: Tokens, reason: str) -> None:
    with pytest.raises(AuthenticationFailed, match=reason):
        OauthBearerClient(provider).respond(b"")


@pytest.mark.parametrize(
    ("settings", "first"),
    [
        ({"sasl.mechanism": "PLAIN", **USER}, b"\0alice\0secret"),
        ({"sasl.mechanisms": "plain", **USER}, b"\0alice\0secret"),
        (
            {"sasl.mechanism": "PLAIN", "sasl.jaas.config": f'{PLAIN_LOGIN} username="alice" password="se\\"cret";'},
            b'\0alice\0se"cret',
        ),
    ],
)
def test_credentials_from_settings(settings: Mapping[str, str], first: bytes) -> None:
    credentials = Credentials.of_client(read(CLIENT, settings), None)
    assert credentials.start().respond(b"") == first
    assert "secret" not in repr(credentials)


def test_a_delegation_token_is_announced() -> None:
    login = f"{SCRAM_LOGIN} username=id password=hmac tokenauth=true;"
    settings = {"sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": login}
    first = Credentials.of_client(read(CLIENT, settings), None).start().respond(b"")
    assert first is not None
    assert first.startswith(b"n,,n=id,r=")
    assert first.endswith(b",tokenauth=true")


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        (USER, "sasl.mechanism: no mechanism is set; expected any of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER"),
        ({"sasl.mechanism": "GSSAPI"}, "sasl.mechanism: 'GSSAPI' is not offered"),
        (
            {"sasl.mechanism": "PLAIN", "sasl.mechanisms": "SCRAM-SHA-256"},
            "sasl.mechanisms: sasl.mechanism is set, too",
        ),
        ({"sasl.mechanism": "PLAIN", "sasl.username": "alice"}, "sasl.password: expected a value for PLAIN"),
        ({"sasl.mechanism": "PLAIN", "sasl.password": "secret"}, "sasl.username: expected a value for PLAIN"),
        ({"sasl.mechanism": "PLAIN", **USER, "sasl.username": "a\0b"}, "NUL"),
        (
            {"sasl.mechanism": "PLAIN", **USER, "sasl.jaas.config": f"{PLAIN_LOGIN} username=a password=secret;"},
            "sasl.jaas.config: sasl.username or sasl.password is set, too",
        ),
        (
            {"sasl.mechanism": "PLAIN", "sasl.jaas.config": f"{SCRAM_LOGIN} username=a password=secret;"},
            "ScramLoginModule is not of PLAIN",
        ),
        ({"sasl.mechanism": "PLAIN", "sasl.jaas.config": f"{PLAIN_LOGIN} username=a;"}, "expected username="),
        ({"sasl.mechanism": "PLAIN", "sasl.jaas.config": "secret"}, "sasl.jaas.config: this value is not accepted"),
        ({"sasl.mechanism": "OAUTHBEARER", **USER}, "sasl.oauthbearer.token.provider: expected the name"),
    ],
)
def test_settings_that_are_rejected(settings: Mapping[str, str], error: str) -> None:
    with pytest.raises(ConfigError) as rejected:
        Credentials.of_client(read(CLIENT, settings), None)
    assert error in str(rejected.value)
    assert "secret" not in str(rejected.value)
