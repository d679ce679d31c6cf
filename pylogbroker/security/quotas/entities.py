"""Entities that quotas are set for, and the quotas in force for a client.

An entity is a user, a client id, both, or an address. DEFAULT in place of a name stands for all that have no quota of
their own. For a client, the first of these entities that has a quota counts (as in Kafka's ClientQuotaManager):

    entity                    clients that share its quota
    ------------------------  --------------------------------------------
    user, client id           those of this user with this id
    user, default client id   those of this user that have the same id
    user                      all of this user
    default user, client id   those of the same user with this id
    both defaults             those of the same user that have the same id
    default user              all of the same user
    client id                 all with this id
    default client id         all that have the same id
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import attrs

from pylogbroker.security.quotas.keys import QuotaKey

DEFAULT: Final = "\0default"
"""Takes the place of a name; names have no NUL."""

Quotas = Mapping[QuotaKey, float]


class QuotaEntity(NamedTuple):
    """User, client id and address of a quota; a part that is None is absent."""

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None


class Limit(NamedTuple):
    """A quota, and the clients that share it: `user` or `client_id` are empty if they do not matter."""

    quota: float
    user: str
    client_id: str


@attrs.frozen
class QuotaTable:
    """The quotas of all entities. An entity without a quota is not in it."""

    entities: Mapping[QuotaEntity, Quotas] = attrs.field(factory=dict)
    keys: frozenset[QuotaKey] = attrs.field(init=False)
    """Those of which some entity has a quota."""

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "keys", frozenset(key for quotas in self.entities.values() for key in quotas))

    def changed(self, changes: Mapping[QuotaEntity, Quotas]) -> QuotaTable:
        """Return a table with other quotas of some entities; one without quotas is removed."""
        return QuotaTable({entity: quotas for entity, quotas in {**self.entities, **changes}.items() if quotas})

    def limit(self, key: QuotaKey, user: str, client_id: str) -> Limit | None:
        """Return what limits a client; None if nothing does."""
        for entity, sharing_user, sharing_id in (
            (QuotaEntity(user, client_id), user, client_id),
            (QuotaEntity(user, DEFAULT), user, client_id),
            (QuotaEntity(user), user, ""),
            (QuotaEntity(DEFAULT, client_id), user, client_id),
            (QuotaEntity(DEFAULT, DEFAULT), user, client_id),
            (QuotaEntity(DEFAULT), user, ""),
            (QuotaEntity(None, client_id), "", client_id),
            (QuotaEntity(None, DEFAULT), "", client_id),
        ):
            quota = self.entities.get(entity, {}).get(key)
            if quota is not None:
                return Limit(quota, sharing_user, sharing_id)
        return None

    def connection_rate(self, ip: str) -> float | None:
        """Return the connections per second that an address may create; None without a limit."""
        for name in (ip, DEFAULT):
            quota = self.entities.get(QuotaEntity(ip=name), {}).get(QuotaKey.CONNECTION_CREATION_RATE)
            if quota is not None:
                return quota
        return None
