"""Credentials of a client, or of a broker that connects to another, from their settings."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import attrs

from pylogbroker.config import Values
from pylogbroker.config.mechanisms import OAUTHBEARER, PLAIN
from pylogbroker.errors import ConfigError
from pylogbroker.interfaces import ITokenProvider
from pylogbroker.security.sasl import jaas
from pylogbroker.security.sasl.client import ClientMechanism, OauthBearerClient, PlainClient, ScramClient
from pylogbroker.security.sasl.users import MECHANISMS

_CLIENT_MECHANISMS: Final = (*MECHANISMS, OAUTHBEARER)
TOKEN_PROVIDER: Final = "sasl.oauthbearer.token.provider"
_MECHANISM: Final = "sasl.mechanism"
_MECHANISMS_OF_LIBRDKAFKA: Final = "sasl.mechanisms"
_USER: Final = "sasl.username"
_PASSWORD: Final = "sasl.password"
JAAS: Final = "sasl.jaas.config"


@attrs.frozen(eq=False, repr=False)
class Credentials:
    """A mechanism with all that it needs; `start` begins an authentication."""

    mechanism: str
    start: Callable[[], ClientMechanism] = attrs.field(repr=False)

    @classmethod
    def of_client(cls, values: Values, provider: ITokenProvider | None) -> Credentials:
        """Return those of a client's settings; raise ConfigError, which shows no password."""
        mechanism = mechanism_of(values)
        if mechanism == OAUTHBEARER:
            if provider is None:
                raise ConfigError(f"{TOKEN_PROVIDER}: expected the name of a token provider, for {OAUTHBEARER}")
            return cls(mechanism, partial(OauthBearerClient, provider))
        user, password = values.optional_text(_USER), values.optional_text(_PASSWORD)
        text = values.optional_text(JAAS)
        if text and (user or password):
            raise ConfigError(f"{JAAS}: {_USER} or {_PASSWORD} is set, too; remove one of them")
        if text:
            return cls.of_login(mechanism, jaas.parse(text, JAAS), JAAS)
        for name, value in ((_USER, user), (_PASSWORD, password)):
            if not value:
                raise ConfigError(f"{name}: expected a value for {mechanism}; sasl.jaas.config can have it, too")
        return cls._of_user(mechanism, user or "", password or "")

    @classmethod
    def of_login(cls, mechanism: str, login: jaas.Login, where: str) -> Credentials:
        """Return those of a login in Java's syntax; raise ConfigError, which names the setting."""
        expected = jaas.PLAIN_MODULE if mechanism == PLAIN else jaas.SCRAM_MODULE
        if login.module != expected:
            raise ConfigError(f"{where}: {login.module} is not of {mechanism}; expected {expected}")
        user, password = login.options.get("username"), login.options.get("password")
        if not (user and password):
            raise ConfigError(f'{where}: expected username="..." and password="..."')
        is_token = login.options.get("tokenauth", "").lower() == "true"
        return cls._of_user(mechanism, user, password, ",tokenauth=true" if is_token else "")

    @classmethod
    def _of_user(cls, mechanism: str, user: str, password: str, extensions: str = "") -> Credentials:
        if "\0" in user + password:
            raise ConfigError(f"{_USER}: user and password must not have the character NUL")
        if mechanism == PLAIN:
            return cls(mechanism, partial(PlainClient, user, password))
        return cls(mechanism, partial(ScramClient, mechanism, user, password, extensions))


def mechanism_of(values: Values) -> str:
    """Return the mechanism of a client's settings; raise ConfigError."""
    mechanism, other = values.optional_text(_MECHANISM), values.optional_text(_MECHANISMS_OF_LIBRDKAFKA)
    if mechanism and other and mechanism != other:
        raise ConfigError(f"{_MECHANISMS_OF_LIBRDKAFKA}: {_MECHANISM} is set, too; remove one of them")
    return check_mechanism(mechanism or other, _CLIENT_MECHANISMS, _MECHANISM)


def check_mechanism(given: str | None, offered: tuple[str, ...], setting: str) -> str:
    """Return the mechanism in capitals; raise ConfigError for one that is not offered."""
    chosen = (given or "").upper()
    if chosen not in offered:
        shown = f"{given!r} is not offered" if given else "no mechanism is set"
        raise ConfigError(f"{setting}: {shown}; expected any of {', '.join(offered)}")
    return chosen
