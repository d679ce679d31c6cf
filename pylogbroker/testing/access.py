"""Users, TLS and ACLs of a test's brokers.

| listener  | for                                             | protocol                                            |
|-----------|-------------------------------------------------|-----------------------------------------------------|
| `CLIENTS` | the clients of the test                         | `PLAINTEXT`, `SSL`, `SASL_PLAINTEXT` or `SASL_SSL`  |
| `CONTROL` | the test's own requests, brokers of one cluster | `SASL_PLAINTEXT` with a super user, or `PLAINTEXT`  |
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final, Self

import attrs

from pylogbroker.client import arguments
from pylogbroker.errors import ConfigError
from pylogbroker.features import on_first_use
from pylogbroker.security.acls.bindings import (
    CLUSTER_NAME,
    WILDCARD,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
)
from pylogbroker.wire.messages.create_acls import AclCreation

if TYPE_CHECKING:
    from pylogbroker.security.tls import authority as tls_authority
    from pylogbroker.security.tls.authority import Authority, Identity
else:
    tls_authority = on_first_use("pylogbroker.security.tls.authority")

CONTROL: Final = "CONTROL"
_SUPER_USER: Final = "pylogbroker-testing"
_MECHANISM: Final = "SCRAM-SHA-256"
_HOSTS: Final = ("127.0.0.1", "localhost")
_DAYS: Final = 2.0
_ACL: Final = re.compile(r"(?P<deny>deny +)?(?P<who>\S+) +(?P<operation>\w+) +(?P<type>\w+)(?::(?P<name>\S+))?")


@attrs.frozen
class AccessRules:
    """Rules that the test asks for; `acls` of None is no authorizer."""

    users: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    tls: bool = False
    acls: Sequence[str] | None = None

    @classmethod
    def of(cls, users: Any, tls: Any, acls: Any) -> Self:
        """Validate the arguments; raise ConfigError."""
        named = {} if users is None else arguments.texts_by_name("users", users)
        for name, password in named.items():
            if not name or not password or any(mark in name for mark in ":\n") or "\n" in password:
                raise ConfigError(
                    f"users: {name!r} is not accepted; expected a name without colon, and a password, each in one line"
                )
        return cls(named, arguments.flag("tls", tls), None if acls is None else arguments.texts("acls", acls))

    @property
    def is_open(self) -> bool:
        return not self.users and not self.tls and self.acls is None

    def acl_creations(self) -> list[AclCreation]:
        """Parse the ACLs; raise ConfigError."""
        return [parse_acl(text) for text in self.acls or ()]


@attrs.define(eq=False, repr=False)
class AccessFiles:
    """Files of the rules in a directory, and settings of brokers and clients."""

    _rules: AccessRules
    _directory: Path
    _password: str = attrs.field(factory=token_hex, init=False, repr=False)
    _authority: Authority | None = attrs.field(default=None, init=False, repr=False)

    def write(self) -> None:
        """Write the users, and the certificates of authority and broker."""
        users = {**self._rules.users, _SUPER_USER: self._password}
        file = self._directory / "users"
        file.touch(0o600)  # the broker warns of one that others can read
        file.write_text("".join(f"{name}:{password}\n" for name, password in users.items()))
        if self._rules.tls:
            self._authority = tls_authority.Authority.create("pylogbroker testing", _DAYS)
            (self._directory / "ca.pem").write_text(self._authority.identity.certificate_pem)
            self._write_identity("broker", self._authority.issue("broker", _HOSTS, _DAYS))

    def broker_settings(self) -> dict[str, str]:
        settings = {
            "listeners": f"CLIENTS://127.0.0.1:0,{CONTROL}://127.0.0.1:0",
            "listener.security.protocol.map": f"CLIENTS:{self._clients_protocol},{CONTROL}:{self._control_protocol}",
            "inter.broker.listener.name": CONTROL,
        }
        return settings | dict(self._sasl_settings()) | dict(self._tls_settings()) | dict(self._acl_settings())

    def control_settings(self) -> dict[str, str]:
        """Return what a client needs for the listener `CONTROL`."""
        return {"security.protocol": self._control_protocol} | (
            _login(_SUPER_USER, self._password) if self._control_has_sasl else {}
        )

    def client_settings(self, user: str | None) -> dict[str, str]:
        """Return librdkafka's settings for a user, by default the first; with TLS alone, for a new certificate."""
        settings = {"security.protocol": self._clients_protocol}
        if self._rules.tls:
            settings["ssl.ca.location"] = str(self._directory / "ca.pem")
        if self._rules.users:
            name = user or next(iter(self._rules.users))
            if name not in self._rules.users:
                raise ConfigError(f"users: there is no {name!r}")
            settings |= _login(name, self._rules.users[name])
        elif user is not None:
            settings |= self._certificate_of(user)
        return settings

    def _certificate_of(self, user: str) -> dict[str, str]:
        if self._authority is None:
            raise ConfigError(f"{user!r} has no credentials: the broker has neither users nor TLS")
        path = self._write_identity(user, self._authority.issue(user, days=_DAYS))
        return {"ssl.certificate.location": path, "ssl.key.location": path}

    def _write_identity(self, name: str, identity: Identity) -> str:
        path = self._directory / f"{name}.pem"
        path.write_text(identity.pem())
        return str(path)

    @property
    def _clients_protocol(self) -> str:
        if self._rules.users:
            return "SASL_SSL" if self._rules.tls else "SASL_PLAINTEXT"
        return "SSL" if self._rules.tls else "PLAINTEXT"

    @property
    def _control_has_sasl(self) -> bool:
        return bool(self._rules.users) or self._rules.acls is not None

    @property
    def _control_protocol(self) -> str:
        return "SASL_PLAINTEXT" if self._control_has_sasl else "PLAINTEXT"

    def _sasl_settings(self) -> Iterator[tuple[str, str]]:
        if self._control_has_sasl:
            login = f'org.apache.kafka.common.security.scram.ScramLoginModule required username="{_SUPER_USER}"'
            yield "users", str(self._directory / "users")
            yield "sasl.enabled.mechanisms", "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
            yield "listener.name.control.sasl.enabled.mechanisms", _MECHANISM
            yield "sasl.mechanism.inter.broker.protocol", _MECHANISM
            yield (
                f"listener.name.control.{_MECHANISM.lower()}.sasl.jaas.config",
                f'{login} password="{self._password}";',
            )

    def _tls_settings(self) -> Iterator[tuple[str, str]]:
        if self._rules.tls:
            prefix = "listener.name.clients.ssl"
            yield f"{prefix}.keystore.type", "PEM"
            yield f"{prefix}.keystore.location", str(self._directory / "broker.pem")
            yield f"{prefix}.truststore.type", "PEM"
            yield f"{prefix}.truststore.location", str(self._directory / "ca.pem")
            yield f"{prefix}.client.auth", "none" if self._rules.users else "requested"
            yield "ssl.principal.mapping.rules", "RULE:^CN=([^,]+).*$/$1/,DEFAULT"

    def _acl_settings(self) -> Iterator[tuple[str, str]]:
        if self._rules.acls is not None:
            yield "authorizer.class.name", "kafka.security.authorizer.AclAuthorizer"
            yield "super.users", f"User:{_SUPER_USER}"


def parse_acl(text: str) -> AclCreation:
    """Parse `alice read topic:orders`, `deny bob all topic:*`, `alice read group:prefix-*`; raise ConfigError."""
    match = _ACL.fullmatch(text.strip())
    operation = _member(AclOperation, match and match["operation"])
    kind = _member(AclResourceType, match and match["type"])
    name = (match and match["name"]) or (CLUSTER_NAME if kind is AclResourceType.CLUSTER else "")
    if match is None or operation is None or kind is None or not name:
        raise ConfigError(f"acls: {text!r} is not accepted; expected [deny] USER OPERATION TYPE:NAME")
    is_prefix = name.endswith(WILDCARD) and name != WILDCARD
    pattern = PatternType.PREFIXED if is_prefix else PatternType.LITERAL
    permission = AclPermission.DENY if match["deny"] else AclPermission.ALLOW
    who = match["who"] if ":" in match["who"] else f"User:{match['who']}"
    return AclCreation(
        kind, name.removesuffix(WILDCARD) if is_prefix else name, pattern, who, "*", operation, permission
    )


def _member(
    kind: type[AclOperation] | type[AclResourceType], name: str | None
) -> AclOperation | AclResourceType | None:
    return None if name is None or name.lower() == "any" else kind.__members__.get(name.upper())


def _login(name: str, password: str) -> dict[str, str]:
    return {"sasl.mechanism": _MECHANISM, "sasl.username": name, "sasl.password": password}
