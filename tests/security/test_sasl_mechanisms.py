"""Mechanisms beside the transcripts of RFC 7677 and an independent implementation of SCRAM."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Callable
from hashlib import pbkdf2_hmac, sha256, sha512

import pytest

from pylogbroker.config.mechanisms import SCRAM_SHA_256, SCRAM_SHA_512
from pylogbroker.security.sasl.authentication import Authentication, AuthenticationFailed, IllegalState
from pylogbroker.security.sasl.client import ScramClient
from pylogbroker.security.sasl.plain import PlainServer
from pylogbroker.security.sasl.scram import ScramServer, TokenLogin
from pylogbroker.security.sasl.users import ScramKeys, Users

SECRET = b"a secret of this broker"
RFC_SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
RFC_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
RECORDED_SALT = b"salt of alice"
RECORDED_NONCE = "1isdaa1tqdc5p6fdc74jhyeyo1"
RECORDED = [
    rb"n,,n=alice,r=H}Ue0]ON;E;H~ab:8YU}Ntr0<</~[yiw",
    rb"r=H}Ue0]ON;E;H~ab:8YU}Ntr0<</~[yiw1isdaa1tqdc5p6fdc74jhyeyo1,s=c2FsdCBvZiBhbGljZQ==,i=4096",
    rb"c=biws,r=H}Ue0]ON;E;H~ab:8YU}Ntr0<</~[yiwH}Ue0]ON;E;H~ab:8YU}Ntr0<</~[yiw1isdaa1tqdc5p6fdc74jhyeyo1,"
    rb"p=6tdRL+Mehl9bD7jT1eOGMq166+l74IGRamU6i7abqKo=",
    rb"v=Yzk1SCuqqjdwHZ3WuID7I1ImEBFhTL3kzBPzZ1it4Uo=",
]
HASHES = {SCRAM_SHA_256: sha256, SCRAM_SHA_512: sha512}


def users(**passwords: str) -> Users:
    return Users(passwords, {}, SECRET)


def keyed(mechanism: str, name: str, password: str, salt: bytes = RFC_SALT, iterations: int = 4096) -> Users:
    return Users({}, {(mechanism, name): ScramKeys.derive(mechanism, password, salt, iterations)}, SECRET)


def test_the_transcript_of_rfc_7677() -> None:
    server = ScramServer(keyed(SCRAM_SHA_256, "user", "pencil"), SCRAM_SHA_256, lambda: RFC_NONCE)
    first = server.respond(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    assert first == b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    assert server.user is None
    final = server.respond(
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert final == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert server.user == "user"


class Client:
    """SCRAM's client, written from the RFC's formulas."""

    def __init__(self, mechanism: str, name: str, password: str, header: str = "n,,") -> None:
        self.hash, self.password, self.header = HASHES[mechanism], password, header
        self.bare = f"n={name},r=abc"

    def first(self) -> bytes:
        return (self.header + self.bare).encode()

    def final(self, challenge: bytes, nonce: str = "", header: str = "n,,") -> bytes:
        fields = dict(part.split("=", 1) for part in challenge.decode().split(","))
        name = self.hash().name
        salted = pbkdf2_hmac(name, self.password.encode(), base64.b64decode(fields["s"]), int(fields["i"]))
        key = hmac.digest(salted, b"Client Key", name)
        unsigned = f"c={base64.b64encode(header.encode()).decode()},r={nonce or fields['r']}"
        signed = f"{self.bare},{challenge.decode()},{unsigned}".encode()
        signature = hmac.digest(self.hash(key).digest(), signed, name)
        proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
        self.signature = hmac.digest(hmac.digest(salted, b"Server Key", name), signed, name)
        return f"{unsigned},p={base64.b64encode(proof).decode()}".encode()


@pytest.mark.parametrize("mechanism", HASHES)
def test_passwords_and_keys_serve_both_mechanisms(mechanism: str) -> None:
    for known in (users(alice="secret"), keyed(mechanism, "alice", "secret", b"salt" * 6, 8192)):
        server, client = ScramServer(known, mechanism), Client(mechanism, "alice", "secret")
        answer = server.respond(client.final(server.respond(client.first())))
        assert (server.user, answer) == ("alice", b"v=" + base64.b64encode(client.signature))
        assert known.check("alice", "secret")
        assert not known.check("alice", "Secret")


@pytest.mark.parametrize("mechanism", HASHES)
def test_wrong_passwords_and_unknown_users_fail_alike_at_the_end(mechanism: str) -> None:
    seen = []
    for name in ("alice", "nobody"):
        server, client = ScramServer(users(alice="secret"), mechanism), Client(mechanism, name, "wrong")
        challenge = server.respond(client.first())
        with pytest.raises(AuthenticationFailed) as failure:
            server.respond(client.final(challenge))
        assert server.user is None
        salt, iterations = challenge.decode().split(",")[1:]
        seen.append((len(salt), iterations, str(failure.value)))
    assert seen[0] == seen[1]


def test_the_challenge_of_an_unknown_user_is_stable_and_plausible() -> None:
    known = keyed(SCRAM_SHA_256, "alice", "secret", b"s" * 17, 8192)
    salt, iterations = known.challenge(SCRAM_SHA_256, "nobody")
    assert (len(salt), iterations) == (17, 8192)
    assert known.challenge(SCRAM_SHA_256, "nobody") == (salt, iterations)
    assert known.challenge(SCRAM_SHA_256, "nobody else")[0] != salt


def test_the_secret_that_stands_in_for_passwords_is_no_password() -> None:
    assert not users().check("nobody", SECRET.hex())
    server, client = ScramServer(users(), SCRAM_SHA_256), Client(SCRAM_SHA_256, "nobody", SECRET.hex())
    challenge = server.respond(client.first())
    with pytest.raises(AuthenticationFailed):
        server.respond(client.final(challenge))


@pytest.mark.parametrize("name", ["a\u00addmin", "a=2Cb", "a=3Db", "Jürgen"])
def test_names_are_taken_as_they_are(name: str) -> None:
    decoded = name.replace("=2C", ",").replace("=3D", "=")
    server, client = ScramServer(users(**{decoded: "p"}), SCRAM_SHA_256), Client(SCRAM_SHA_256, name, "p")
    server.respond(client.final(server.respond(client.first())))
    assert server.user == decoded


@pytest.mark.parametrize(
    "first",
    [
        b"p=tls-unique,,n=alice,r=abc",
        b"y,,n=alice,r=abc",
        b"n,a=bob,n=alice,r=abc",
        b"n,,n=alice",
        b"n,,n=,r=abc",
        b"n,,n=al=ice,r=abc",
        b"n,,m=x,n=alice,r=abc",
        b"\xff",
        b"",
    ],
)
def test_first_messages_that_are_not_accepted(first: bytes) -> None:
    with pytest.raises(AuthenticationFailed):
        ScramServer(users(alice="secret"), SCRAM_SHA_256).respond(first)


def test_the_final_message_must_fit_the_first() -> None:
    def end(header: str = "n,,", final_header: str = "n,,", nonce: str = "") -> str | None:
        server, client = ScramServer(users(alice="p"), SCRAM_SHA_256), Client(SCRAM_SHA_256, "alice", "p", header)
        server.respond(client.final(server.respond(client.first()), nonce, final_header))
        return server.user

    assert end("n,a=alice,", "n,a=alice,") == end("n,a=alice,", "n,,") == "alice"
    for wrong in ({"final_header": "n,a=alice,"}, {"nonce": "abc"}, {"final_header": "y,,"}):
        with pytest.raises(AuthenticationFailed):
            end(**wrong)


def test_login_of_librdkafka_2_0_2_is_accepted() -> None:
    """A login of Debian's kcat to Apache Kafka 3.9.2, as its messages were on the wire."""
    server = ScramServer(keyed(SCRAM_SHA_256, "alice", "secret", RECORDED_SALT), SCRAM_SHA_256, lambda: RECORDED_NONCE)
    assert server.respond(RECORDED[0]) == RECORDED[1]
    assert server.respond(RECORDED[2]) == RECORDED[3]
    assert server.user == "alice"


def test_nonces_that_end_with_both_are_accepted_and_others_are_named() -> None:
    def end(change: Callable[[str], str]) -> str | None:
        server, client = ScramServer(users(alice="p"), SCRAM_SHA_256), Client(SCRAM_SHA_256, "alice", "p")
        challenge = server.respond(client.first())
        both = challenge.decode().partition(",")[0].removeprefix("r=")
        server.respond(client.final(challenge, change(both)))
        return server.user

    assert end(lambda both: "abc" + both) == end(lambda both: "other" + both) == "alice"
    for wrong in (lambda both: both + "abc", lambda both: both.removeprefix("abc"), lambda both: both[:-1]):
        with pytest.raises(AuthenticationFailed, match="the nonce of the final message does not end with the broker's"):
            end(wrong)


def test_a_proof_of_another_size_is_wrong() -> None:
    server, client = ScramServer(users(alice="p"), SCRAM_SHA_256), Client(SCRAM_SHA_256, "alice", "p")
    final = client.final(server.respond(client.first())).partition(b",p=")[0]
    with pytest.raises(AuthenticationFailed):
        server.respond(final + b",p=AAAA")


@pytest.mark.parametrize("token", [b"\0alice\0secret", b"alice\0alice\0secret"])
def test_plain(token: bytes) -> None:
    server = PlainServer(users(alice="secret"))
    assert (server.respond(token), server.user) == (b"", "alice")


@pytest.mark.parametrize(
    "token",
    [
        b"\0alice\0wrong",
        b"\0bob\0secret",
        b"\0\0secret",
        b"\0alice\0",
        b"bob\0alice\0secret",
        b"alice\0secret",
        b"\0alice\0secret\0",
        b"\0alice\0\xff",
        b"",
    ],
)
def test_plain_without_the_right_credentials(token: bytes) -> None:
    server = PlainServer(users(alice="secret"))
    with pytest.raises(AuthenticationFailed):
        server.respond(token)
    assert server.user is None


def test_a_failure_that_is_a_value_refers_to_no_frame() -> None:
    """Frames and exceptions form cycles: a collector that frees many of them keeps the broker's clients waiting."""
    authentication = Authentication({"PLAIN": lambda: PlainServer(users(alice="secret"))})
    authentication.begin("PLAIN", 1)
    failures = [authentication.attempt(b"\0alice\0wrong") for _ in range(2)]
    assert [type(each) for each in failures] == [AuthenticationFailed, IllegalState]
    assert str(failures[0]) == "the user or the password is wrong"
    for each in failures:
        assert isinstance(each, AuthenticationFailed)
        assert (each.__traceback__, each.__context__, each.__cause__) == (None, None, None)


def test_secrets_are_not_shown() -> None:
    known = Users({"alice": "secret"}, keyed(SCRAM_SHA_256, "bob", "pencil").keys, SECRET)
    for shown in (repr(known), repr(PlainServer(known)), repr(ScramServer(known, SCRAM_SHA_256))):
        assert "secret" not in shown
        assert "server_key" not in shown


@pytest.mark.parametrize("extensions", [",tokenauth=true", ",other=1,tokenauth=TRUE"])
def test_scram_by_a_delegation_token(extensions: str) -> None:
    """The user is the token's owner, until the token expires."""
    asked = []

    def find(token_id: str) -> TokenLogin:
        asked.append(token_id)
        return TokenLogin(users(token="password"), "alice", 1000)

    server = ScramServer(users(token="another"), SCRAM_SHA_256, find_token=find)
    client = ScramClient(SCRAM_SHA_256, "token", "password", extensions)
    answer = b""
    while (message := client.respond(answer)) is not None:
        answer = server.respond(message)
    assert (server.user, server.expires_ms, server.by_token, asked) == ("alice", 1000, True, ["token"])


def test_scram_without_a_delegation_token() -> None:
    for extensions, find in (
        (",tokenauth=true", None),
        (",tokenauth=true", lambda _: TokenLogin(users(), "", None)),
    ):
        server = ScramServer(users(alice="secret"), SCRAM_SHA_256, find_token=find)
        client = ScramClient(SCRAM_SHA_256, "alice", "secret", extensions)
        with pytest.raises(AuthenticationFailed):
            server.respond(client.respond(server.respond(client.respond(b"") or b"")) or b"")
        assert server.user is None
    server = ScramServer(users(alice="secret"), SCRAM_SHA_256)
    client = ScramClient(SCRAM_SHA_256, "alice", "secret", ",tokenauth=false")
    client.respond(server.respond(client.respond(server.respond(client.respond(b"") or b"")) or b""))
    assert (server.user, server.by_token) == ("alice", False)
