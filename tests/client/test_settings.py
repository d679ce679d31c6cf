"""The tables of clients' settings."""

from __future__ import annotations

import pytest

from pylogbroker.client.settings import CLIENT, CONSUMER, PRODUCER, read
from pylogbroker.errors import ConfigError


def test_every_default_is_accepted_as_a_value() -> None:
    for table in (CLIENT, PRODUCER, CONSUMER):
        for name, setting in table.items():
            if setting.default not in (None, "", ()):
                assert read(table, {name: setting.default})[name] == setting.default


def test_producers_and_consumers_have_all_client_settings() -> None:
    assert CLIENT.keys() <= PRODUCER.keys() & CONSUMER.keys()


def test_settings_are_given_by_name_by_keyword_and_as_text() -> None:
    settings = read(CLIENT, {"retry.backoff.ms": 7, "metadata.max.age.ms": "9"}, client_id="me")
    assert settings.integer("retry.backoff.ms") == 7
    assert settings.integer("metadata.max.age.ms") == 9
    assert settings.text("client.id") == "me"
    assert settings.integer("request.timeout.ms") == 30_000


def test_a_value_of_none_leaves_the_default() -> None:
    assert read(CLIENT, client_id=None).text("client.id") == "pylogbroker"


def test_lists_and_truth_values() -> None:
    settings = read(CLIENT, {"bootstrap.servers": ["a:1", "b:2"], "allow.auto.create.topics": False})
    assert settings.texts("bootstrap.servers") == ("a:1", "b:2")
    assert settings.boolean("allow.auto.create.topics") is False


@pytest.mark.parametrize(
    ("given", "reported"),
    [
        ({"retry.backof.ms": 1}, "retry.backof.ms is not a setting of this client: did you mean retry.backoff.ms"),
        ({"zzz": 1}, "zzz is not a setting of this client: the settings are allow.auto.create.topics"),
        ({"request.timeout.ms": 0}, "request.timeout.ms: '0' is not accepted; expected a whole number from 1 to"),
        ({"request.timeout.ms": "soon"}, "request.timeout.ms: 'soon' is not accepted"),
        ({"request.timeout.ms": 1.5}, "request.timeout.ms: '1.5' is not accepted"),
        ({"request.timeout.ms": object}, "request.timeout.ms: <class 'object'> is not accepted"),
        ({"allow.auto.create.topics": "perhaps"}, "expected true or false"),
        ({"group.id": "readers"}, "group.id is not a setting of this client: pass the group as group="),
        ({"sasl.mechanizm": "PLAIN"}, "did you mean sasl.mechanism?"),
        ({"security.protocol": "SASL"}, "expected PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL"),
    ],
)
def test_invalid_settings_are_rejected(given: dict[str, object], reported: str) -> None:
    with pytest.raises(ConfigError) as rejected:
        read(CLIENT, given)
    assert reported in str(rejected.value)


@pytest.mark.parametrize(("name", "argument"), [("value.serializer", "encoder="), ("key.serializer", "key_encoder=")])
def test_an_object_in_place_of_a_plugins_name(name: str, argument: str) -> None:
    with pytest.raises(ConfigError, match=f"expected the name of a plugin; pass an object as {argument}"):
        read(PRODUCER, {name: str.encode})


def test_a_setting_given_twice() -> None:
    with pytest.raises(ConfigError, match=r"client\.id is given twice"):
        read(CLIENT, {"client.id": "a"}, client_id="b")
