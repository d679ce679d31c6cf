"""Java's syntax of a login, as in the setting `sasl.jaas.config`:

org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret" user_bob="other";

and of a file with logins by sections:

KafkaServer {
    org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";
};
"""

from __future__ import annotations

import re
from typing import Final

import attrs

from pylogbroker.config.mechanisms import OAUTHBEARER, PLAIN
from pylogbroker.errors import ConfigError

PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTHBEARER_MODULE: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
_MODULES: Final = (PLAIN_MODULE, SCRAM_MODULE, OAUTHBEARER_MODULE)
MODULES: Final = {PLAIN: PLAIN_MODULE, OAUTHBEARER: OAUTHBEARER_MODULE}
"""Modules by mechanism; that of others is SCRAM's."""
_FLAGS: Final = "required|requisite|sufficient|optional"
_OPTIONS: Final = r"(?:\s+[\w.-]+\s*=\s*(?:\"(?:[^\"\\]|\\.)*\"|[^\s\";]+))*"
_LOGIN: Final = re.compile(
    rf"\s*(?P<module>[\w.$]+)\s+(?:{_FLAGS})(?P<options>{_OPTIONS})\s*;\s*", re.DOTALL | re.IGNORECASE
)
_SECTION: Final = re.compile(r"\s*(?P<name>[\w.-]+|\"[^\"]+\")\s*\{")
_END: Final = re.compile(r"\s*\}\s*;\s*")
_COMMENT_OR_TEXT: Final = re.compile(r"\"(?:[^\"\\]|\\.)*\"|//[^\n]*|/\*.*?\*/", re.DOTALL)
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
    if match["module"] not in _MODULES:
        raise ConfigError(f"{where}: {match['module']} is not offered; expected one of {', '.join(_MODULES)}")
    return _login(match)


def parse_file(text: str, where: str) -> dict[str, list[Login]]:
    """Return the logins of each section, of any module; raise ConfigError, which names the line."""
    text = _COMMENT_OR_TEXT.sub(lambda part: part[0] if part[0].startswith('"') else _blank(part[0]), text)
    sections: dict[str, list[Login]] = {}
    position = 0
    while text[position:].strip():
        begin = _SECTION.match(text, position)
        if begin is None:
            raise _malformed(text, position, where)
        logins, position = [], begin.end()
        while match := _LOGIN.match(text, position):
            logins.append(_login(match))
            position = match.end()
        end = _END.match(text, position)
        if end is None or not logins:
            raise _malformed(text, position, where)
        sections[begin["name"].strip('"')] = logins
        position = end.end()
    return sections


def _blank(comment: str) -> str:
    return "\n" * comment.count("\n") or " "


def _malformed(text: str, position: int, where: str) -> ConfigError:
    position += len(text[position:]) - len(text[position:].lstrip())
    line = text.count("\n", 0, position) + 1
    return ConfigError(f"{where}, line {line}: expected NAME {{ MODULE required OPTION=VALUE ...; }};")


def _login(match: re.Match[str]) -> Login:
    options = {
        option[1]: option[3] if option[3] is not None else re.sub(r"\\(.)", r"\1", option[2], flags=re.DOTALL)
        for option in _OPTION.finditer(match["options"])
    }
    return Login(match["module"], options)
