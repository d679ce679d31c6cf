"""Token providers by settings: this client's own, librdkafka's, and Java's syntax of a login."""

from __future__ import annotations

import pytest

from pylogbroker.client.connection_settings import connection_settings
from pylogbroker.client.settings import CLIENT, read
from pylogbroker.errors import ConfigError
from pylogbroker.security.sasl.token_choice import choose_provider

LOGIN = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
TOKENS = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}


@pytest.mark.parametrize(
    ("settings", "chosen"),
    [
        ({}, None),
        ({"security.protocol": "PLAINTEXT", "sasl.oauthbearer.method": "oidc"}, None),
        ({"sasl.oauthbearer.token.provider": "file:x", "sasl.jaas.config": f"{LOGIN};"}, "file:x"),
        ({"sasl.oauthbearer.method": "oidc"}, "oidc"),
        (
            {"enable.sasl.oauthbearer.unsecure.jwt": "true", "sasl.oauthbearer.config": "scope=a principal=alice"},
            "unsecured:alice",
        ),
        ({"sasl.jaas.config": f'{LOGIN} unsecuredLoginStringClaim_sub="alice";'}, "unsecured:alice"),
        ({"sasl.jaas.config": f'{LOGIN} clientId="a" clientSecret="b" scope="c";'}, "oidc"),
    ],
)
def test_choices(settings: dict[str, str], chosen: str | None) -> None:
    found = choose_provider(read(CLIENT, {**TOKENS, **settings}))
    assert (found.plugin if found else None) == chosen
    if chosen == "oidc" and found is not None and "sasl.jaas.config" in settings:
        kinds = ("client.id", "client.secret", "scope")
        assert found.added == {f"sasl.oauthbearer.{kind}": text for kind, text in zip(kinds, "abc", strict=True)}


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        (
            {"sasl.oauthbearer.method": "oidc", "sasl.oauthbearer.token.provider": "file:x"},
            "sasl.oauthbearer.method: sasl.oauthbearer.token.provider is set, too",
        ),
        ({"enable.sasl.oauthbearer.unsecure.jwt": "true"}, "sasl.oauthbearer.config: expected principal=NAME"),
        ({"sasl.jaas.config": f"{LOGIN};"}, 'sasl.jaas.config: expected clientId="..."'),
        ({"sasl.jaas.config": LOGIN.replace("OAuthBearer", "x") + ";"}, "is not offered"),
        (
            {"sasl.jaas.config": f"{LOGIN} clientId=hidden;", "sasl.oauthbearer.client.id": "x"},
            "sasl.oauthbearer.client.id: sasl.jaas.config has it, too",
        ),
        ({"sasl.oauthbearer.method": "oidc"}, "sasl.oauthbearer.token.endpoint.url: expected a value"),
        (
            {
                "sasl.jaas.config": f"{LOGIN} clientId=a clientSecret=hidden;",
                "sasl.oauthbearer.token.endpoint.url": "file:///x",
            },
            "sasl.oauthbearer.token.endpoint.url: expected https://",
        ),
    ],
)
def test_settings_that_are_rejected(settings: dict[str, str], error: str) -> None:
    with pytest.raises(ConfigError) as rejected:
        connection_settings(read(CLIENT, {**TOKENS, **settings}))
    assert error in str(rejected.value)
    assert "hidden" not in str(rejected.value)
