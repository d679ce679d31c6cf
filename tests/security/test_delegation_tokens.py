"""Delegation tokens: HMACs as OpenSSL computes them, nodes as Kafka writes them, and the table of those in force."""

from __future__ import annotations

import json

import attrs
import pytest

from pylogbroker.config.mechanisms import SCRAM_SHA_256
from pylogbroker.security.delegation import tree_layout
from pylogbroker.security.delegation.tokens import DelegationToken, TokenSecret, TokenTable, password_of
from pylogbroker.security.delegation.tree_layout import BadToken

ID = "Zm9vYmFyYmF6cXV4MDAwMA"
KEY = TokenSecret(b"the secret key")
PASSWORD = "Lx6y113nUoB6id5oINChFStx7R1eCPIGfsDJpG+JomQTKfozo8Z62u5gtY1d7T0Zp3V7Zdn2BRLF2EBm3c275A=="
TOKEN = DelegationToken(ID, "User:al ice", "User:bob", ("User:c,d", "User:e"), 10, 30, 20)
NODE = {
    "version": 3,
    "owner": "User%3Aal%20ice",
    "tokenRequester": "User%3Abob",
    "renewers": ["User%3Ac%2Cd", "User%3Ae"],
    "issueTimestamp": 10,
    "maxTimestamp": 30,
    "expiryTimestamp": 20,
    "tokenId": ID,
}


def test_passwords_match_openssls() -> None:
    """The output of `printf ID | openssl dgst -sha512 -hmac 'the secret key' -binary | base64`."""
    assert password_of(KEY.hmac(ID)) == PASSWORD
    assert KEY.issued(TOKEN).password == PASSWORD


def test_secrets_are_not_shown() -> None:
    table = TokenTable(KEY)
    table.replace(ID, TOKEN)
    for shown in (repr(KEY), repr(KEY.issued(TOKEN)), repr(table), repr(KEY.users(ID))):
        assert "secret key" not in shown
        assert repr(KEY.hmac(ID)) not in shown
        assert PASSWORD not in shown


def test_nodes_are_kafkas() -> None:
    assert json.loads(tree_layout.encode_token(TOKEN)) == NODE
    assert tree_layout.decode_token(json.dumps(NODE).encode()) == TOKEN
    assert tree_layout.path(ID) == f"/delegation_token/tokens/{ID}"
    assert tree_layout.CHANGE_PREFIX == "/delegation_token/token_changes/token_change_"
    assert tree_layout.encode_change(ID) == ID.encode()
    assert tree_layout.decode_change(ID.encode()) == ID


def test_nodes_before_3_3_have_no_requester() -> None:
    node = {name: value for name, value in NODE.items() if name != "tokenRequester"}
    for version in (1, 2):
        found = tree_layout.decode_token(json.dumps(node | {"version": version}).encode())
        assert found == attrs.evolve(TOKEN, requester=TOKEN.owner)


@pytest.mark.parametrize(
    "wrong",
    [None, b"", b"[]", b"{}", b'"x"', NODE | {"version": 4}, NODE | {"owner": "alice"}, NODE | {"renewers": 1}],
)
def test_unreadable_nodes(wrong: object) -> None:
    with pytest.raises(BadToken):
        tree_layout.decode_token(json.dumps(wrong).encode() if isinstance(wrong, dict) else wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [None, b"", b"\xff", b"a/b", b"..", b"a\0b"])
def test_unreadable_notifications(wrong: bytes | None) -> None:
    assert tree_layout.decode_change(wrong) is None


def test_the_table() -> None:
    table, mac = TokenTable(KEY), KEY.hmac(ID)
    assert table.id_of(mac) is None
    table.replace(ID, TOKEN)
    later = attrs.evolve(TOKEN, expires_ms=25)
    table.replace(ID, later)
    assert (table.get(ID), table.id_of(mac), table.tokens, table.ids) == (later, ID, [later], [ID])
    assert (table.count_of("User:bob"), table.count_of("User:al ice")) == (1, 0)
    assert table.id_of(mac[:-1] + b"x") is None
    table.replace(ID, None)
    table.replace(ID, None)
    assert (table.get(ID), table.id_of(mac), table.tokens) == (None, None, [])
    assert table.count_of("User:bob") == 0


def test_times_and_principals_of_a_token() -> None:
    assert TOKEN.is_valid(20)
    assert not TOKEN.is_valid(21)
    assert not attrs.evolve(TOKEN, expires_ms=40).is_valid(31)
    assert [each for each in ("User:al ice", "User:bob", "User:e", "User:x") if TOKEN.may_renew(each)] == [
        "User:al ice",
        "User:e",
    ]
    assert TOKEN.concerns(frozenset({"User:x", "User:bob"}))
    assert not TOKEN.concerns(frozenset({"User:x"}))


def test_challenges_do_not_say_which_tokens_exist() -> None:
    known, unknown = KEY.users(ID), KEY.users(None)
    assert known.challenge(SCRAM_SHA_256, ID) == unknown.challenge(SCRAM_SHA_256, ID)
    assert known.scram_keys(SCRAM_SHA_256, ID)[1]
    assert not unknown.scram_keys(SCRAM_SHA_256, ID)[1]
