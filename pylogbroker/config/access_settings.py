"""The broker's settings for authorization by ACLs."""

from __future__ import annotations

from typing import Final

from pylogbroker.config.setting import Setting, fixed
from pylogbroker.config.value_kinds import BOOLEAN, ConfigType, NotAccepted, ValueKind

_AUTHORIZERS: Final = (
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "kafka.security.authorizer.AclAuthorizer",
    "kafka.security.auth.SimpleAclAuthorizer",
)


def _check_class(text: str) -> None:
    if text and text not in _AUTHORIZERS:
        raise NotAccepted(
            f"this broker has one authorizer, by ACLs: expected {_AUTHORIZERS[0]}, or an older name of Kafka's own "
            f"({', '.join(_AUTHORIZERS[1:])}); others cannot be loaded"
        )


def parse_super_users(text: str) -> frozenset[str]:
    """Return the principals of `User:a;User:b`; raise NotAccepted."""
    users = frozenset(filter(None, map(str.strip, text.split(";"))))
    for user in sorted(users):
        kind, _, name = user.partition(":")
        if not (kind and name):
            raise NotAccepted(f"{user!r} is no principal; expected User:name, several separated by semicolons")
    return users


ACCESS_SETTINGS: tuple[Setting, ...] = (
    fixed(
        "authorizer.class.name",
        ValueKind(ConfigType.STRING, check=_check_class),
        "",
        "low",
        f"Authorizes clients by ACLs: {_AUTHORIZERS[0]}, or {' or '.join(_AUTHORIZERS[1:])}, all names of the same "
        "here. Without it, everybody who can connect may do everything.",
    ),
    fixed(
        "super.users",
        ValueKind(ConfigType.STRING, check=parse_super_users),
        "",
        "low",
        "Principals that may do everything, whatever the ACLs say: User:name, separated by semicolons.",
    ),
    fixed(
        "allow.everyone.if.no.acl.found",
        BOOLEAN,
        False,
        "low",
        "Whether everybody may use resources that no ACL covers.",
    ),
)
