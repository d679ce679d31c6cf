"""The token provider `oidc`, with an issuer by HTTP: requests, how long tokens are kept, and errors."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pylogbroker.plugins.oidc_tokens import OidcTokens, OidcTokensFactory, TokenFailed
from tests.plugins.issuers import TokenIssuer, token_issuer
from tests.security.tokens import unsecured
from tests.support.certificates import Certificates

NOW = 1_000_000.0


class FakeTime:
    """A clock that pauses move on."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def issuer(monkeypatch: pytest.MonkeyPatch) -> Iterator[TokenIssuer]:
    monkeypatch.setenv("no_proxy", "*")
    with token_issuer() as found:
        yield found


def provider(issuer: TokenIssuer, time: FakeTime, **more: Any) -> OidcTokens:
    settings = {
        "sasl.oauthbearer.token.endpoint.url": issuer.url,
        "sasl.oauthbearer.client.id": "me",
        "sasl.oauthbearer.client.secret": "hidden",
        **more,
    }
    made = OidcTokensFactory().make("", settings)
    assert isinstance(made, OidcTokens)
    made._clock, made._sleep = time, time.sleep
    assert "hidden" not in repr(made)
    return made


def test_the_request(issuer: TokenIssuer) -> None:
    issuer.give((200, {"access_token": "t", "expires_in": 100}))
    assert provider(issuer, FakeTime(), **{"sasl.oauthbearer.scope": "a b"}).token().value == "t"
    assert provider(issuer, FakeTime()).token().value == "t"
    login = f"Basic {base64.b64encode(b'me:hidden').decode()}"
    credentials = {"grant_type": ["client_credentials"]}
    assert issuer.asked == [(login, {**credentials, "scope": ["a b"]}), (login, credentials)]


@pytest.mark.parametrize("has_claim", [True, False])
def test_a_token_is_kept_for_most_of_its_life(issuer: TokenIssuer, has_claim: bool) -> None:
    """The claim of a JWT counts, not what the answer says besides; another token has only the answer."""
    time = FakeTime()
    first = unsecured(sub="me", exp=NOW + 100) if has_claim else "opaque"
    issuer.give((200, {"access_token": first, "expires_in": 1 if has_claim else 100}), (200, {"access_token": "next"}))
    tokens = provider(issuer, time)
    for now in (0, 50, 79.9):
        time.now = NOW + now
        assert tokens.token().value == first
    assert len(issuer.asked) == 1
    time.now = NOW + 80
    assert tokens.token().value == "next"
    assert tokens.token().value == "next"
    assert len(issuer.asked) == 3  # nobody knows how long this one is good for


def test_threads_share_one_token(issuer: TokenIssuer) -> None:
    issuer.give((200, {"access_token": "t", "expires_in": 100}))
    tokens = provider(issuer, FakeTime())
    with ThreadPoolExecutor(8) as threads:
        found = {each.value for each in threads.map(lambda _: tokens.token(), range(50))}
    assert (found, len(issuer.asked)) == ({"t"}, 1)


def test_a_token_serves_until_its_end_without_the_issuer(issuer: TokenIssuer) -> None:
    time = FakeTime()
    issuer.give((200, {"access_token": "t", "expires_in": 100}), (403, {}))
    tokens = provider(issuer, time)
    for now in (0, 90):
        time.now = NOW + now
        assert tokens.token().value == "t"
    time.now = NOW + 100
    with pytest.raises(TokenFailed, match="answers 403"):
        tokens.token()


def test_errors_of_the_issuer_are_passed_over(issuer: TokenIssuer) -> None:
    time = FakeTime()
    issuer.give((503, {}), (500, {}), (200, {"access_token": "t"}))
    assert provider(issuer, time).token().value == "t"
    assert time.now == pytest.approx(NOW + 0.1 + 0.2)
    issuer.give((503, {}))
    with pytest.raises(TokenFailed, match="answers 503"):
        provider(issuer, time, **{"socket.connection.setup.timeout.ms": 5000}).token()
    assert NOW + 3 < time.now < NOW + 5


@pytest.mark.parametrize(
    ("status", "answer", "why"),
    [
        (401, {"error": "invalid_client", "error_description": "hidden"}, r"/token answers 401: invalid_client$"),
        (400, "no object", r"/token answers 400$"),
        (307, "http://localhost:1/", r"/token answers 307$"),
        (200, {"token": "t"}, "the issuer's answer has no access_token"),
        (200, [], "the issuer's answer has no access_token"),
        (200, {"access_token": 7}, "the issuer's answer has no access_token"),
    ],
)
def test_answers_that_are_no_tokens(issuer: TokenIssuer, status: int, answer: Any, why: str) -> None:
    """They are not asked for again, and the client's secret goes nowhere else."""
    issuer.give((status, answer))
    with pytest.raises(TokenFailed, match=why) as failed:
        provider(issuer, FakeTime()).token()
    assert "hidden" not in str(failed.value)
    assert len(issuer.asked) == 1


def test_a_redirection_is_not_followed(issuer: TokenIssuer) -> None:
    issuer.give((302, issuer.url + "/elsewhere"))
    with pytest.raises(TokenFailed, match="answers 302"):
        provider(issuer, FakeTime()).token()
    assert len(issuer.asked) == 1


def test_https(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("no_proxy", "*")
    authority = Certificates(tmp_path).authority_file
    with token_issuer(tls=True) as issuer:
        issuer.give((200, {"access_token": "t"}))
        assert provider(issuer, FakeTime(), **{"https.ca.location": authority}).token().value == "t"
        assert provider(issuer, FakeTime(), **{"https.ca.pem": Path(authority).read_text()}).token().value == "t"
        with pytest.raises(TokenFailed, match="CERTIFICATE_VERIFY_FAILED"):
            provider(issuer, FakeTime()).token()
    assert len(issuer.asked) == 2
