"""Credentials in nodes of the tree, and challenges for users that do not exist."""

from __future__ import annotations

import os

import pytest

from pylogbroker.config.mechanisms import SCRAM_SHA_256, SCRAM_SHA_512
from pylogbroker.metadata.entity_names import desanitized, sanitized
from pylogbroker.security.sasl.stored_credentials import BadCredential, StoredCredentials, decode, encode
from pylogbroker.security.sasl.users import ScramKeys, Users

# RFC 7677's example, with the password `pencil`, in the form that Kafka's ScramCredentialUtils writes
TEXT = (
    "salt=W22ZaJ0SNY7soEsUEjb6gQ==,stored_key=WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=,"
    "server_key=wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=,iterations=4096"
)


def test_keys_are_written_as_kafka_writes_them() -> None:
    keys = decode(SCRAM_SHA_256, TEXT)
    assert keys.is_of("pencil")
    assert encode(keys) == TEXT


@pytest.mark.parametrize(
    "text", ["", "secret", TEXT + ",secret=1", TEXT.replace("=4096", "=x"), TEXT.replace("W22Z", "W2!Z")]
)
def test_a_bad_credential_is_not_shown(text: str) -> None:
    with pytest.raises(BadCredential) as error:
        decode(SCRAM_SHA_256, text)
    assert "secret" not in str(error.value).replace("expected", "")
    assert "W2" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "node"),
    [("alice", "alice"), ("a b*c", "a%20b%2Ac"), ("~a/b", "%7Ea%2Fb"), ("<default>", "%3Cdefault%3E"), ("ü", "%C3%BC")],
)
def test_names_of_nodes(name: str, node: str) -> None:
    assert (sanitized(name), desanitized(node)) == (node, name)


def keys_of(iterations: int = 4096, salt: bytes = b"0123456789") -> ScramKeys:
    return ScramKeys.derive(SCRAM_SHA_256, "secret", salt, iterations)


def users(stored: StoredCredentials, secret: bytes = b"s" * 32, **passwords: str) -> Users:
    return Users(passwords, {}, secret, stored)


def test_users_of_the_tree_follow_its_changes() -> None:
    stored = StoredCredentials()
    found = users(stored)
    assert found.is_empty
    assert not found.check("alice", "secret")
    stored.replace("alice", {SCRAM_SHA_256: keys_of()})
    assert not found.is_empty
    assert found.check("alice", "secret")
    assert found.challenge(SCRAM_SHA_256, "alice") == (b"0123456789", 4096)
    stored.replace("alice", {})
    assert not found.check("alice", "secret")
    assert stored.shapes == ()


def test_the_file_hides_a_user_of_the_tree() -> None:
    stored = StoredCredentials()
    stored.replace("alice", {SCRAM_SHA_256: keys_of()})
    found = users(stored, alice="other")
    assert not found.check("alice", "secret")
    assert found.check("alice", "other")


def test_challenges_of_unknown_users_look_like_real_ones() -> None:
    stored = StoredCredentials()
    java = b"1a2b3c4d5e6f7g8h9i0jklmnop"
    stored.replace("java", {SCRAM_SHA_256: keys_of(8192, java)})
    for number in range(20):
        salt, iterations = users(stored).challenge(SCRAM_SHA_256, f"nobody-{number}")
        assert (len(salt), iterations) == (len(java), 8192)
        assert salt.isalnum()
        assert salt == salt.lower()
    stored.replace("c", {SCRAM_SHA_256: keys_of(4096, os.urandom(64))})
    seen = [users(stored).challenge(SCRAM_SHA_256, f"nobody-{number}") for number in range(40)]
    assert {(len(salt), iterations) for salt, iterations in seen} == {(26, 8192), (64, 4096)}


def test_fake_challenges_are_stable_and_equal_on_all_brokers() -> None:
    """A user who has no keys of one mechanism gets a stand-in for it, too."""
    stored, other = StoredCredentials(), StoredCredentials()
    for each in (stored, other):
        each.replace("alice", {SCRAM_SHA_256: keys_of()})
    for mechanism, name in ((SCRAM_SHA_256, "nobody"), (SCRAM_SHA_512, "alice")):
        assert users(stored).challenge(mechanism, name) == users(other).challenge(mechanism, name)
        assert users(stored).challenge(mechanism, name) != users(other, b"t" * 32).challenge(mechanism, name)
    assert users(stored).challenge(SCRAM_SHA_256, "nobody") != users(stored).challenge(SCRAM_SHA_256, "noone")


def test_passwords_do_not_stand_out_by_their_challenges() -> None:
    stored = StoredCredentials()
    stored.replace("java", {SCRAM_SHA_256: keys_of(8192, b"a" * 26)})
    found = users(stored, alice="secret")
    shapes = {(len(found.challenge(SCRAM_SHA_256, f"n{each}")[0])) for each in range(40)}
    assert len(found.challenge(SCRAM_SHA_256, "alice")[0]) in shapes
