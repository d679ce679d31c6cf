"""Users' file and Java's logins: what they mean, and errors that do not show secrets."""

from __future__ import annotations

import base64

import pytest

from pylogbroker.config.mechanisms import SCRAM_SHA_256
from pylogbroker.errors import ConfigError
from pylogbroker.security.sasl import jaas, users_file

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


FILE = f"""// for Kafka's clients
KafkaServer {{
    {PLAIN} required
        username="admin" password="a//b" // the broker's own
        user_admin="a//b" /* and
        others */ user_alice="}};";
    org.apache.kafka.common.security.scram.ScramLoginModule required username="s" password="t";
}};
inside.KafkaServer {{ {PLAIN} required user_bob="x"; }};
"Client" {{ com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true; }};
"""


def test_a_file_of_logins() -> None:
    sections = jaas.parse_file(FILE, "file")
    assert {name: len(logins) for name, logins in sections.items()} == {
        "KafkaServer": 2,
        "inside.KafkaServer": 1,
        "Client": 1,
    }
    plain, scram = sections["KafkaServer"]
    assert plain.accounts == {"admin": "a//b", "alice": "};"}
    assert scram.options == {"username": "s", "password": "t"}
    assert jaas.parse_file(" \n// nothing\n", "file") == {}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("KafkaServer", 1),
        ("KafkaServer {\n", 2),
        ("\nKafkaServer {\n};", 3),
        (FILE + "x", 11),
        (FILE.replace('"x";', '"x"'), 9),
        (FILE.replace("required\n", "\n"), 3),
    ],
)
def test_a_bad_file_of_logins(text: str, line: int) -> None:
    with pytest.raises(ConfigError, match=rf"file, line {line}: expected NAME"):
        jaas.parse_file(text, "file")
