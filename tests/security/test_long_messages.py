"""Messages of the greatest size, of clients and servers that are not authenticated: parsing takes linear time.

A parser whose time grows with the square of the length would need more than a minute for one of them.
"""

from __future__ import annotations

import base64
import contextlib
import time
from collections.abc import Callable, Iterator

import pytest

from pylogbroker.broker.apis import api_versions
from pylogbroker.security.sasl.authentication import AuthenticationFailed
from pylogbroker.security.sasl.client import ScramClient
from pylogbroker.security.sasl.oauthbearer import OAuthServer, UnsecuredValidator
from pylogbroker.security.sasl.plain import PlainServer
from pylogbroker.security.sasl.scram import ScramServer
from pylogbroker.security.sasl.users import Users
from tests.security.tokens import first_message, unsecured

BYTES = 500_000  # sasl.server.max.receive.size is 524,288
ENOUGH_SECONDS = 20
USERS = Users({"alice": "secret"}, {}, b"secret")
NOW = 1_700_000_000


@contextlib.contextmanager
def short() -> Iterator[None]:
    """Expect that work of this thread ends soon; what others do meanwhile does not count."""
    began = time.thread_time()
    yield
    assert time.thread_time() - began < ENOUGH_SECONDS


def repeated(start: bytes, part: bytes, end: bytes) -> bytes:
    return start + part * (BYTES // len(part)) + end


def oauth_server() -> OAuthServer:
    return OAuthServer(UnsecuredValidator(lambda: NOW * 1000))


@pytest.mark.parametrize(
    ("start", "part", "end"),
    [
        (b"n,,\1", b"auth=b a\1", b""),
        (b"n,,\1", b"auth=b a\1", b"\1"),
        (b"n,,\1", b"a=b\1", b"auth=Bearer"),
        (b"n,,\1", b"a=\1", b"\1"),
        (b"n,,\1auth=", b"a", b"\1\1"),
        (b"n,,\1auth=Bearer", b" ", b"\1\1"),
        (b"n,,\1auth=Bearer ", b"a.", b" \1\1"),
        (b"n,a=", b"=2C", b"\1"),
        (b"n,a=", b"a", b"\1"),
        (b"", b"\1", b""),
    ],
)
def test_first_messages_of_oauthbearer(start: bytes, part: bytes, end: bytes) -> None:
    with short(), pytest.raises(AuthenticationFailed):
        oauth_server().respond(repeated(start, part, end))


@pytest.mark.parametrize("text", ["[" * BYTES, '{"a":' * (BYTES // 5), "1" * BYTES, '"' + "\\u0000" * (BYTES // 6)])
def test_claims_of_tokens(text: str) -> None:
    header = unsecured().partition(".")[0]
    message = first_message(f"{header}.{base64.urlsafe_b64encode(text.encode()).decode().rstrip('=')}.")
    with short():
        assert oauth_server().respond(message) == b'{"status":"invalid_token"}'


def test_a_long_token_is_accepted_between_many_extensions() -> None:
    server = oauth_server()
    token = unsecured(sub="alice", exp=NOW + 60, groups=["some group"] * 20_000)
    message = b"n,,\1" + b"host=here\1" * 10_000 + f"auth=Bearer {token}\1".encode() + b"port=1\1" * 10_000 + b"\1"
    with short():
        assert server.respond(message) == b""
    assert server.user == "alice"


@pytest.mark.parametrize(
    ("start", "part", "end"),
    [
        (b"n,,n=", b"a", b"!"),
        (b"n,,n=", b"=2C", b"\0"),
        (b"n,,n=", b"a=2C", b"="),
        (b"n,,n=a,r=", b"b", b"\0"),
        (b"n,,n=a,r=b", b",a=b", b"\0"),
        (b"n,,n=a,r=b", b",a=n=a,r=b", b","),
        (b"n,,n=a,r=b,", b"a", b""),
        (b"n,a=", b"a", b""),
    ],
)
def test_first_messages_of_scram(start: bytes, part: bytes, end: bytes) -> None:
    with short(), pytest.raises(AuthenticationFailed):
        ScramServer(USERS, "SCRAM-SHA-256").respond(repeated(start, part, end))


@pytest.mark.parametrize(
    ("start", "part", "end"),
    [
        (b"c=", b"a", b""),
        (b"c=biws,r=", b"b", b""),
        (b"c=biws,r=abc", b",p=a", b","),
        (b"c=biws,r=abc", b",p=a", b",!"),
        (b"c=biws,r=abc", b",p=a", b""),
        (b"c=biws,r=abc,", b"p", b""),
        (b"c=biws,r=abc,p=", b"p", b"!"),
        (b"c=biws,r=abc,p=", b"=", b""),
        (b"c=", b"=", b",r=abc,p=a"),
    ],
)
def test_final_messages_of_scram(start: bytes, part: bytes, end: bytes) -> None:
    server = ScramServer(USERS, "SCRAM-SHA-256", make_nonce=lambda: "")
    server.respond(b"n,,n=alice,r=abc")
    with short(), pytest.raises(AuthenticationFailed):
        server.respond(repeated(start, part, end))


@pytest.mark.parametrize("part", [b"\0", b"a", b"\0a\0b"])
def test_messages_of_plain(part: bytes) -> None:
    for start in (b"", b"\0a\0", b"\0"):
        with short(), pytest.raises(AuthenticationFailed):
            PlainServer(USERS).respond(repeated(start, part, b""))


@pytest.mark.parametrize(
    ("start", "part", "end"),
    [(b"r=abc", b"a", b""), (b"r=abc,s=", b"a", b""), (b"r=abcd,s=a,i=1", b",", b"\n"), (b"r=abcd,s=a,i=", b"1", b"")],
)
def test_challenges_for_clients(start: bytes, part: bytes, end: bytes) -> None:
    client = ScramClient("SCRAM-SHA-256", "alice", "secret", make_nonce=lambda: "abc")
    client.respond(b"")
    with short(), pytest.raises(AuthenticationFailed):
        client.respond(repeated(start, part, end))


@pytest.mark.parametrize("part", ["a", "a-", "-."])
def test_names_of_clients(part: str) -> None:
    matches: Callable[[str], object] = api_versions._CLIENT_SOFTWARE.fullmatch
    with short():
        assert matches("a" + part * BYTES + "!") is None
