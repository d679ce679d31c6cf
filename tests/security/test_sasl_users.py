"""Users' file and Java's logins: what they mean, and errors that do not show secrets."""

from __future__ import annotations

import base64

import pytest

from pylogbroker.errors import ConfigError
from pylogbroker.security.sasl import jaas, users_file
from pylogbroker.security.sasl.users import SCRAM_SHA_256

KEYS = (
    "SCRAM-SHA-256$4096$W22ZaJ0SNY7soEsUEjb6gQ=="
    "$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=$wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
)
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def test_a_file_has_passwords_and_keys() -> None:
    """The keys of RFC 7677's example, as PostgreSQL and others print them for the password `pencil`."""
    content = users_file.parse(f"# users\n\nalice:a:b$c \nuser:{KEYS}\n", "users")
    assert content.passwords == {"alice": "a:b$c "}
    keys = content.keys[SCRAM_SHA_256, "user"]
    assert (keys.iterations, keys.salt) == (4096, base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="))
    assert keys.is_of("pencil")
    assert not keys.is_of("pen")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("secret", "expected name:password"),
        (":secret", "expected name:password"),
        ("alice:", "expected name:password"),
        ("bob:secret", "occurs twice"),
        ("alice:" + KEYS.replace("4096", "4095"), "4096 to 16384 iterations"),
        ("alice:" + KEYS.replace("4096", "16385"), "4096 to 16384 iterations"),
        ("alice:" + KEYS.rpartition("$")[0], "expected name:SCRAM-SHA-256$"),
        ("alice:" + KEYS.replace("SHA-256", "SHA-512"), "keys of 64 bytes"),
        ("alice:" + KEYS + "!", "must be base64"),
    ],
)
def test_a_bad_line_is_named_and_not_shown(line: str, reason: str) -> None:
    with pytest.raises(ConfigError) as error:
        users_file.parse(f"bob:another\n{line}\n", "users: file")
    assert str(error.value).startswith("users: file, line 2: ")
    assert reason in str(error.value)
    assert "secret" not in str(error.value)


def test_accounts_of_plain() -> None:
    login = jaas.parse(
        f'{PLAIN} required\n username="admin" password="p;\\"q" user_alice="s=1" user_bob=plain ;', "here"
    )
    assert login.accounts == {"alice": "s=1", "bob": "plain"}
    assert login.options["password"] == 'p;"q'
    scram = jaas.parse('org.apache.kafka.common.security.scram.ScramLoginModule required user_a="b";', "here")
    assert scram.accounts == {}


@pytest.mark.parametrize(
    "text", ["", f'{PLAIN} required user_a="secret"', f'{PLAIN} user_a="secret";', 'x.Other required user_a="secret";']
)
def test_other_logins_are_not_accepted_and_not_shown(text: str) -> None:
    with pytest.raises(ConfigError) as error:
        jaas.parse(text, "sasl.jaas.config")
    assert str(error.value).startswith("sasl.jaas.config: ")
    assert "secret" not in str(error.value)
