"""OAUTHBEARER: messages, tokens that nobody has signed, and signed ones."""

from __future__ import annotations

import base64
import hmac
import json
from typing import Any

import attrs
import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, RSAKey

from pylogbroker.errors import ConfigError
from pylogbroker.security.sasl.authentication import AuthenticationFailed
from pylogbroker.security.sasl.oauthbearer import (
    InsufficientScope,
    InvalidToken,
    OAuthServer,
    TokenValidator,
    UnsecuredValidator,
    ValidToken,
)
from pylogbroker.security.sasl.signed_tokens import SignedValidator, parse_keys
from tests.security.tokens import Issuer, first_message, unsecured

NOW = 1_700_000_000
GOOD = {"sub": "alice", "exp": NOW + 60}


def unsecured_validator(**options: Any) -> UnsecuredValidator:
    return UnsecuredValidator(lambda: NOW * 1000, **options)


def respond(message: bytes, validator: TokenValidator | None = None) -> OAuthServer:
    server = OAuthServer(validator or unsecured_validator())
    assert server.respond(message) == b""
    return server


def test_a_valid_token() -> None:
    """Java's clients send extensions behind the token; the RFC's example has host and port before it."""
    token = unsecured(**GOOD)
    for message in (
        first_message(token),
        first_message(token, "alice", logicalCluster="a b", poolId="=,"),
        f"n,,\1host=server.example.com\1port=143\1auth=bearer  {token}\1\1".encode(),
    ):
        server = respond(message)
        assert (server.user, server.expires_ms) == ("alice", (NOW + 60) * 1000)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\1",
        b"n,,\1\1",
        b"n,,\1auth=Bearer \1\1",
        b"n,,\1auth=Basic abc\1\1",
        b"n,,\1auth=Bearer abc\1",
        b"y,,\1auth=Bearer abc\1\1",
        b"n,,\1auth=Bearer \xff\1\1",
        first_message(unsecured(**GOOD), "bob"),
    ],
)
def test_messages_that_are_not_accepted(message: bytes) -> None:
    server = OAuthServer(unsecured_validator())
    with pytest.raises(AuthenticationFailed):
        server.respond(message)
    assert server.user is None


def test_a_failure_has_two_messages() -> None:
    """The client gets the status, and confirms it; a better token comes too late."""
    for end in (b"\1", first_message(unsecured(**GOOD))):
        server = OAuthServer(unsecured_validator())
        answer = server.respond(first_message(unsecured(sub="alice", exp=NOW)))
        assert json.loads(answer) == {"status": "invalid_token"}
        with pytest.raises(AuthenticationFailed, match="the token has expired"):
            server.respond(end)
        assert server.user is None
    scoped = OAuthServer(unsecured_validator(required_scope=frozenset({"a", "b"})))
    answer = scoped.respond(first_message(unsecured(**GOOD, scope="a c")))
    assert json.loads(answer) == {"status": "insufficient_scope", "scope": "a b"}


@pytest.mark.parametrize(
    "claims",
    [
        {"sub": "alice"},
        {**GOOD, "sub": ""},
        {**GOOD, "sub": 1},
        {"exp": NOW + 60},
        {**GOOD, "exp": NOW},
        {**GOOD, "exp": str(NOW + 60)},
        {**GOOD, "exp": True},
        {**GOOD, "exp": 1e300},
        {**GOOD, "exp": float("nan")},
        {**GOOD, "iat": NOW + 1},
        {**GOOD, "nbf": NOW + 60},
    ],
)
def test_unsecured_tokens_that_are_not_accepted(claims: dict[str, Any]) -> None:
    with pytest.raises(InvalidToken):
        unsecured_validator().validate(unsecured(**claims))


def test_invalid_unsecured_tokens_are_rejected() -> None:
    good, signed = unsecured(**GOOD), Issuer().token(**GOOD)
    for token in ("", "a", "a.b.", good[:-1], good + "x", good + ".", signed, signed.rpartition(".")[0] + ".", "..."):
        with pytest.raises(InvalidToken):
            unsecured_validator().validate(token)


def test_options_of_unsecured_tokens() -> None:
    validator = unsecured_validator(principal_claim="name", scope_claim="s", required_scope={"a"}, skew_ms=2000)
    late = {"name": "bob", "exp": NOW - 1, "iat": NOW - 5}
    assert validator.validate(unsecured(**late, s=["a", 1])) == ValidToken("bob", (NOW - 1) * 1000)
    assert validator.validate(unsecured(**late, s="b a")).principal == "bob"
    for claims in ({"s": ["b"]}, {}, {"scope": "a"}):
        with pytest.raises(InsufficientScope):
            validator.validate(unsecured(**late, **claims))
    with pytest.raises(InvalidToken, match="expired"):
        validator.validate(unsecured(name="bob", exp=NOW - 2, s="a"))


@attrs.define
class Source:
    """Keys of an issuer; `next_keys` are there when they are read again."""

    keys: KeySet
    next_keys: KeySet | None = None
    reads: int = 0

    def read_for_unknown(self) -> bool:
        self.reads += 1
        if self.next_keys is None:
            return False
        self.keys = self.next_keys
        return True


ISSUER = Issuer()
SIGNED = {**GOOD, "iss": "https://issuer", "aud": ["kafka", "other"]}


def public(issuer: Issuer) -> KeySet:
    return parse_keys(issuer.jwks(), "here")


def signed_validator(source: Source | None = None) -> SignedValidator:
    return SignedValidator(
        source or Source(public(ISSUER)), lambda: NOW * 1000, "https://issuer", ["kafka", "x"], "sub", 30
    )


@pytest.mark.parametrize("kid", ["rsa", "ec"])
def test_signed_tokens(kid: str) -> None:
    assert signed_validator().validate(ISSUER.token(kid, **SIGNED)) == ValidToken("alice", (NOW + 60) * 1000)
    assert (
        signed_validator().validate(ISSUER.token(kid, **{**SIGNED, "aud": "x", "exp": NOW - 29})).principal == "alice"
    )


@pytest.mark.parametrize(
    "change",
    [
        {"exp": None},
        {"exp": NOW - 30},
        {"exp": "never"},
        {"nbf": NOW + 31},
        {"iat": NOW + 31},
        {"iss": "https://other"},
        {"iss": None},
        {"aud": "other"},
        {"aud": []},
        {"aud": None},
        {"sub": None},
        {"sub": ""},
        {"sub": 5},
    ],
)
def test_signed_tokens_with_other_claims(change: dict[str, Any]) -> None:
    claims = {name: value for name, value in {**SIGNED, **change}.items() if value is not None}
    with pytest.raises(InvalidToken):
        signed_validator().validate(ISSUER.token(**claims))


def _with_secret(secret: bytes) -> str:
    """Return a token that a secret signs (HS256)."""
    text = ".".join([_part({"alg": "HS256", "kid": "rsa"}), _part(SIGNED)])
    return f"{text}.{_encoded(hmac.digest(secret, text.encode(), 'sha256'))}"


def _part(value: object) -> str:
    return _encoded(json.dumps(value).encode())


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def test_forged_tokens() -> None:
    """Tokens without a signature, of another key, with a changed claim, and signed with the public key as a secret."""
    good = ISSUER.token(**SIGNED)
    header, claims, signature = good.split(".")
    other = Issuer().token(**{**SIGNED, "sub": "admin"})
    secret = ISSUER.keys.get_by_kid("rsa").as_pem(private=False)
    for token in (
        unsecured(**SIGNED),
        f"{header}.{claims}.",
        f"{header}.{other.split('.')[1]}.{signature}",
        f"{other.split('.')[0]}.{other.split('.')[1]}.{signature}",
        other,
        _with_secret(secret),
        "",
        "a.b.c",
        good + "x",
    ):
        with pytest.raises(InvalidToken):
            signed_validator().validate(token)


def test_an_unknown_key_lets_keys_be_read_again() -> None:
    source = Source(KeySet([public(ISSUER).get_by_kid("ec")]))
    with pytest.raises(InvalidToken, match="no key of the issuer"):
        signed_validator(source).validate(ISSUER.token(**SIGNED))
    assert source.reads == 1
    source.next_keys = public(ISSUER)
    assert signed_validator(source).validate(ISSUER.token(**SIGNED)).principal == "alice"
    signed_validator(source).validate(ISSUER.token(**SIGNED))
    assert source.reads == 2


def _unnamed(issuer: Issuer, kid: str) -> str:
    """Return a token that does not name its key."""
    return jwt.encode({"alg": "RS256" if kid.startswith("rsa") else "ES256"}, SIGNED, issuer.keys.get_by_kid(kid))


def test_tokens_that_do_not_name_their_key() -> None:
    """Each key of the issuer may have signed them, also the second one of the same kind."""
    rsa = [RSAKey.generate_key(2048, {"kid": f"rsa{number}"}) for number in range(2)]
    curves = [ECKey.generate_key(curve, {"kid": curve}) for curve in ("P-384", "P-256")]
    issuer = Issuer(KeySet([*curves, *rsa]))
    for kid in ("rsa0", "rsa1", "P-256"):
        validator = signed_validator(Source(public(issuer)))
        assert validator.validate(_unnamed(issuer, kid)).principal == "alice"
        with pytest.raises(InvalidToken, match="no key of the issuer"):
            validator.validate(_unnamed(issuer, kid)[:-8] + "AAAAAAAA")
    with pytest.raises(InvalidToken, match="no key of the issuer"):
        signed_validator(Source(public(issuer))).validate(_unnamed(ISSUER, "rsa"))


def test_a_token_without_a_key_lets_keys_be_read_again() -> None:
    """The issuer may have a new key."""
    source = Source(public(Issuer()), public(ISSUER))
    assert signed_validator(source).validate(_unnamed(ISSUER, "rsa")).principal == "alice"
    assert source.reads == 1


def test_a_key_for_another_algorithm_does_not_fit() -> None:
    key = RSAKey.generate_key(2048)
    source = Source(KeySet([RSAKey.import_key({**key.as_dict(private=False), "alg": "PS256"}), *public(ISSUER).keys]))
    with pytest.raises(InvalidToken, match="no key of the issuer"):
        signed_validator(source).validate(jwt.encode({"alg": "RS256"}, SIGNED, key))


def test_sets_of_keys() -> None:
    """Keys that are secrets, for encryption, or of unknown kinds do not count."""
    known = json.loads(ISSUER.jwks())["keys"][0]
    others = [{"kty": "oct", "k": "c2VjcmV0", "kid": "o"}, {**known, "kid": "e", "use": "enc"}, {"kty": "new"}]
    found = parse_keys(json.dumps({"keys": [*others, known]}).encode(), "here")
    assert [each.kid for each in found.keys] == ["rsa"]
    for text in (b"", b"[]", b"{}", b'{"keys":[]}', b'{"keys":[1]}', json.dumps({"keys": others[:1]}).encode()):
        with pytest.raises(ConfigError, match="here: this is no set of public keys"):
            parse_keys(text, "here")


def test_keys_that_are_not_known_do_not_matter() -> None:
    """A new curve, or a damaged key, leaves the others in use."""
    known = json.loads(ISSUER.jwks())["keys"]
    others = [
        {**known[1], "crv": "P-999"},
        {"kty": "OKP", "crv": "new", "x": "AA"},
        {**known[0], "n": None},
        {"kty": "EC"},
    ]
    lines: list[str] = []
    found = parse_keys(json.dumps({"keys": [*others, *known]}).encode(), "here", lines.append)
    assert [each.kid for each in found.keys] == ["rsa", "ec"]
    [line] = lines
    assert line == "4 of 6 keys are damaged or of unknown kinds, and not used: EC, EC P-999, OKP new, RSA"
    with pytest.raises(ConfigError, match="here: this is no set of public keys"):
        parse_keys(json.dumps({"keys": others}).encode(), "here")
