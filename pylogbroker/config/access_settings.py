"""The broker's settings for authorization by ACLs."""

from __future__ import annotations

from typing import Final

from pylogbroker.config.setting import fixed, rows_of
from pylogbroker.config.value_kinds import BOOLEAN, ConfigType, NotAccepted, TypedKind
from pylogbroker.config.values import Values

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


class AccessRows(Values):
    __slots__ = ()

    authorizer_class_name = fixed(
        "authorizer.class.name",
        TypedKind[str](ConfigType.STRING, check=_check_class),
        "",
        "low",
        f"Authorizes clients by ACLs: {_AUTHORIZERS[0]}, or {' or '.join(_AUTHORIZERS[1:])}, all names of the same "
        "here. Without it, everybody who can connect may do everything.",
    )
    super_users = fixed(
        "super.users",
        TypedKind[str](ConfigType.STRING, check=parse_super_users),
        "",
        "low",
        "Principals that may do everything, whatever the ACLs say: User:name, separated by semicolons.",
    )
    allow_everyone_if_no_acl_found = fixed(
        "allow.everyone.if.no.acl.found",
        BOOLEAN,
        False,
        "low",
        "Whether everybody may use resources that no ACL covers.",
    )


ACCESS_SETTINGS = rows_of(AccessRows)
