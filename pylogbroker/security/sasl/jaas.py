"""Java's syntax of a login, as in the setting `sasl.jaas.config`:

org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret" user_bob="other";
"""

from __future__ import annotations

import re
from typing import Final

import attrs

from pylogbroker.errors import ConfigError

PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTHBEARER_MODULE: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
_MODULES: Final = (PLAIN_MODULE, SCRAM_MODULE, OAUTHBEARER_MODULE)
_FLAGS: Final = "required|requisite|sufficient|optional"
_LOGIN: Final = re.compile(
    rf"\s*(?P<module>[\w.$]+)\s+(?:{_FLAGS})(?P<options>(?:\s+[\w.-]+\s*=\s*(?:\"(?:[^\"\\]|\\.)*\"|[^\s\";]+))*)\s*;\s*",
    re.DOTALL | re.IGNORECASE,
)
_OPTION: Final = re.compile(r"([\w.-]+)\s*=\s*(?:\"((?:[^\"\\]|\\.)*)\"|([^\s\";]+))", re.DOTALL)
_ACCOUNT: Final = "user_"


@attrs.frozen
class Login:
    module: str
    options: dict[str, str] = attrs.field(repr=False)

    @property
    def accounts(self) -> dict[str, str]:
        """Passwords of PLAIN's users: the options `user_NAME`."""
        if self.module != PLAIN_MODULE:
            return {}
        return {name.removeprefix(_ACCOUNT): text for name, text in self.options.items() if name.startswith(_ACCOUNT)}


def parse(text: str, where: str) -> Login:
    """Parse one login; raise ConfigError, which does not show the text."""
    match = _LOGIN.fullmatch(text)
    if match is None:
        raise ConfigError(
            f'{where}: this value is not accepted; expected {PLAIN_MODULE} required user_NAME="password";'
        )
    options = {
        option[1]: option[3] if option[3] is not None else re.sub(r"\\(.)", r"\1", option[2], flags=re.DOTALL)
        for option in _OPTION.finditer(match["options"])
    }
    if match["module"] not in _MODULES:
        raise ConfigError(f"{where}: {match['module']} is not offered; expected one of {', '.join(_MODULES)}")
    return Login(match["module"], options)
