"""Quotas in the coordination tree, in Kafka's layout; names of users and client ids are URL-encoded.

/config/users/<user>                       {"version":1,"config":{"producer_byte_rate":"1048576"}}, and SCRAM keys
/config/users/<user>/clients/<client id>   quotas of a user's clients
/config/clients/<client id>
/config/ips/<address>                      {"version":1,"config":{"connection_creation_rate":"10"}}
/config/changes/config_change_<seq>        {"version":2,"entity_path":"users/alice/clients/app"}

`<default>` in place of a name stands for all without quotas of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pylogbroker.metadata.entity_names import desanitized, sanitized
from pylogbroker.security.quotas.entities import DEFAULT, QuotaEntity, Quotas
from pylogbroker.security.quotas.keys import CLIENT_KEYS, IP_KEYS, QuotaKey, decode, encode

_DEFAULT_NAME: Final = "<default>"
_CLIENTS: Final = "clients"
NAME_BYTES_MAX: Final = 1000
"""Length of an encoded name."""


def entity_path(entity: QuotaEntity) -> str:
    """Return an entity's path below /config."""
    if entity.ip is not None:
        return f"ips/{_DEFAULT_NAME if entity.ip == DEFAULT else entity.ip}"
    if entity.user is None:
        return f"{_CLIENTS}/{_encoded(entity.client_id or '')}"
    user = f"users/{_encoded(entity.user)}"
    return user if entity.client_id is None else f"{user}/{_CLIENTS}/{_encoded(entity.client_id)}"


def parse_entity_path(path: str) -> QuotaEntity | None:
    """Return the entity of a path below /config; None for settings of other things."""
    match path.split("/"):
        case ["users", user]:
            return QuotaEntity(_decoded(user))
        case ["users", user, "clients", client_id]:
            return QuotaEntity(_decoded(user), _decoded(client_id))
        case ["clients", client_id]:
            return QuotaEntity(None, _decoded(client_id))
        case ["ips", ip]:
            return QuotaEntity(ip=DEFAULT if ip == _DEFAULT_NAME else ip)
    return None


def can_be_stored(entity: QuotaEntity) -> bool:
    """Return whether nodes may have the names of an entity."""
    names = entity_path(entity).split("/")
    return not any(name in ("", ".", "..") or len(name) > NAME_BYTES_MAX for name in names)


def parents(entity: QuotaEntity) -> list[str]:
    """Return the entities' nodes, from the outermost on, that an entity's node is below."""
    if entity.user is None or entity.client_id is None:
        return []
    user = f"users/{_encoded(entity.user)}"
    return [user, f"{user}/{_CLIENTS}"]


def quotas_of(entity: QuotaEntity, settings: Mapping[str, str]) -> dict[QuotaKey, float]:
    """Return the quotas among an entity's settings; raise ValueError for a value that is none."""
    keys = IP_KEYS if entity.ip is not None else CLIENT_KEYS
    return {QuotaKey(name): decode(text) for name, text in settings.items() if name in keys}


def with_quotas(settings: Mapping[str, str], quotas: Quotas) -> dict[str, str]:
    """Return an entity's settings with other quotas; settings that are no quotas stay."""
    others = {name: text for name, text in settings.items() if name not in frozenset(QuotaKey)}
    return others | {str(key): encode(key, value) for key, value in quotas.items()}


def _encoded(name: str) -> str:
    return _DEFAULT_NAME if name == DEFAULT else sanitized(name)


def _decoded(name: str) -> str:
    return DEFAULT if name == _DEFAULT_NAME else desanitized(name)
