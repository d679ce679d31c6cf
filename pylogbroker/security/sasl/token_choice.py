"""Choice of a client's token provider, by its own setting, by librdkafka's, or by Java's syntax of a login.

| settings                                                     | token provider                        |
|--------------------------------------------------------------|---------------------------------------|
| `sasl.oauthbearer.token.provider`                            | that plugin                           |
| `sasl.oauthbearer.method=oidc`                               | `oidc`                                |
| `enable.sasl.oauthbearer.unsecure.jwt=true`                  | `unsecured`, of the principal in      |
|                                                              | `sasl.oauthbearer.config`             |
| OAuthBearerLoginModule with `clientId`, `clientSecret`       | `oidc`                                |
| OAuthBearerLoginModule with `unsecuredLoginStringClaim_sub`  | `unsecured`, of this subject          |
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import attrs

from pylogbroker.config import Values
from pylogbroker.config.mechanisms import OAUTHBEARER
from pylogbroker.errors import ConfigError
from pylogbroker.security.sasl import jaas
from pylogbroker.security.sasl.credentials import JAAS, TOKEN_PROVIDER, mechanism_of

_METHOD: Final = "sasl.oauthbearer.method"
_OIDC: Final = "oidc"
_UNSECURED: Final = "enable.sasl.oauthbearer.unsecure.jwt"
_CONFIG: Final = "sasl.oauthbearer.config"
_PRINCIPAL: Final = re.compile(r"(?:^|\s)principal=(\S+)")
_SUBJECT: Final = "unsecuredLoginStringClaim_sub"
_OPTIONS: Final = {
    "clientId": "sasl.oauthbearer.client.id",
    "clientSecret": "sasl.oauthbearer.client.secret",
    "scope": "sasl.oauthbearer.scope",
}


@attrs.frozen
class TokenChoice:
    """A plugin, the setting that chose it, and the settings that a login in Java's syntax adds."""

    setting: str
    plugin: str
    added: Mapping[str, object] = attrs.field(factory=dict, repr=False)


def choose_provider(values: Values) -> TokenChoice | None:
    """Return the choice; None without one. Raise ConfigError if there are two, or one lacks a value."""
    named = values.optional_text(TOKEN_PROVIDER)
    choices = [TokenChoice(TOKEN_PROVIDER, named)] if named else []
    if not _uses_tokens(values):
        return choices[0] if choices else None
    if values.text(_METHOD) == _OIDC:
        choices.append(TokenChoice(_METHOD, _OIDC))
    if values.boolean(_UNSECURED):
        principal = _PRINCIPAL.search(values.optional_text(_CONFIG) or "")
        if principal is None:
            raise ConfigError(f"{_CONFIG}: expected principal=NAME, for {_UNSECURED}")
        choices.append(TokenChoice(_UNSECURED, f"unsecured:{principal[1]}"))
    login = values.optional_text(JAAS)
    if login and not named:  # a plugin may stand for Java's classes
        choices.append(_choice_of(jaas.parse(login, JAAS), values))
    if len(choices) > 1:
        raise ConfigError(f"{choices[1].setting}: {choices[0].setting} is set, too; remove one of them")
    return choices[0] if choices else None


def _uses_tokens(values: Values) -> bool:
    return values.text("security.protocol").upper().startswith("SASL_") and mechanism_of(values) == OAUTHBEARER


def _choice_of(login: jaas.Login, values: Values) -> TokenChoice:
    if login.module != jaas.OAUTHBEARER_MODULE:
        raise ConfigError(f"{JAAS}: {login.module} is not of {OAUTHBEARER}; expected {jaas.OAUTHBEARER_MODULE}")
    added = {setting: login.options[option] for option, setting in _OPTIONS.items() if option in login.options}
    for setting in added:
        if values.optional_text(setting):
            raise ConfigError(f"{setting}: {JAAS} has it, too; remove one of them")
    if subject := login.options.get(_SUBJECT):
        return TokenChoice(JAAS, f"unsecured:{subject}")
    if not added:
        raise ConfigError(f'{JAAS}: expected clientId="..." and clientSecret="...", or {_SUBJECT}="..."')
    return TokenChoice(JAAS, _OIDC, added)
