"""Quotas: a row for each user, client id or address, with what they use now on this broker, and the form of one."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Annotated, Final

from pylogbroker.config.units import without_unit
from pylogbroker.java.text import parse_double
from pylogbroker.security.quotas.keys import CLIENT_KEYS, IP_KEYS, QuotaKey
from pylogbroker.web.paging import Paged, PageNumber, paged
from pylogbroker.web.parameters import Search
from pylogbroker.web.quota_views import DEFAULT_NAME, Entity, QuotaNames, QuotaRow, alter_quotas, described_quotas
from pylogbroker.web.router import BadRequest
from pylogbroker.web.visitors import Visitor
from pylogbroker.wire.messages.alter_client_quotas import OpData

_SIZES: Final = frozenset({QuotaKey.PRODUCER_BYTE_RATE, QuotaKey.CONSUMER_BYTE_RATE})
Amount = Annotated[str, "a number, perhaps with a unit such as 10MB; empty for no quota"]


class QuotaLine(QuotaNames):
    """Quotas of an entity by their keys, and the use of those that limit its clients now on this broker."""

    values: Mapping[str, float]
    used: Mapping[str, float]
    throttle_ms: Mapping[str, int]


class QuotaPage(Paged):
    search: str
    all_entities: int
    rows: list[QuotaLine]


class EntityQuotas(QuotaLine):
    is_new: bool


class ChangedEntity(QuotaNames):
    changed: int


async def quota_table(visitor: Visitor, search: Search = "", page: PageNumber = 1) -> QuotaPage:
    """Return a page of entities, of those with a part whose name contains `search`."""
    rows = await described_quotas(visitor)
    matching = [row async for row in visitor.services.runtime.slices.over(rows) if _fits(row, search)]
    values, shown = paged(page, "", matching)
    used, throttles = _used(visitor)
    lines = [_line(row, used, throttles) for row in shown]
    return {"search": search, "all_entities": len(rows), **values, "rows": lines}


def _fits(row: QuotaRow, search: str) -> bool:
    return any(search in (name or "") for name in (row["user"], row["client_id"], row["ip"]))


_Uses = Mapping[tuple[str, str], Mapping[str, float]]


def _used(visitor: Visitor) -> tuple[_Uses, Mapping[tuple[str, str], Mapping[str, int]]]:
    """Return rates and throttle times by user and client id, of which one may be empty."""
    rates: dict[tuple[str, str], dict[str, float]] = {}
    throttles: dict[tuple[str, str], dict[str, int]] = {}
    for use in visitor.services.quotas.used():
        rates.setdefault((use.user, use.client_id), {})[use.key] = use.per_second
        throttles.setdefault((use.user, use.client_id), {})[use.key] = use.throttle_ms
    return rates, throttles


def _line(row: QuotaRow, used: _Uses, throttles: Mapping[tuple[str, str], Mapping[str, int]]) -> QuotaLine:
    names = row["user"] or "", row["client_id"] or ""
    return {
        "user": row["user"],
        "client_id": row["client_id"],
        "ip": row["ip"],
        "values": {value["key"]: value["value"] for value in row["values"]},
        "used": used.get(names, {}),
        "throttle_ms": throttles.get(names, {}),
    }


async def entity_quotas(visitor: Visitor, user: Entity = "", client_id: Entity = "", ip: Entity = "") -> EntityQuotas:
    """Return the quotas of an entity, or those of none for a new one."""
    rows = await described_quotas(visitor)
    names = user or None, client_id or None, ip or None
    row = next((row for row in rows if (row["user"], row["client_id"], row["ip"]) == names), None)
    described: QuotaRow = row or {"user": names[0], "client_id": names[1], "ip": names[2], "values": []}
    return {**_line(described, *_used(visitor)), "is_new": row is None}


async def set_quotas(
    visitor: Visitor,
    user: Entity = "",
    client_id: Entity = "",
    ip: Entity = "",
    producer_byte_rate: Amount = "",
    consumer_byte_rate: Amount = "",
    request_percentage: Amount = "",
    controller_mutation_rate: Amount = "",
    connection_creation_rate: Amount = "",
) -> ChangedEntity:
    """Give an entity the quotas of a form: those that are empty are removed, the others set."""
    given = {
        QuotaKey.PRODUCER_BYTE_RATE: producer_byte_rate,
        QuotaKey.CONSUMER_BYTE_RATE: consumer_byte_rate,
        QuotaKey.REQUEST_PERCENTAGE: request_percentage,
        QuotaKey.CONTROLLER_MUTATION_RATE: controller_mutation_rate,
        QuotaKey.CONNECTION_CREATION_RATE: connection_creation_rate,
    }
    if not (user or client_id or ip):
        raise BadRequest(f"write a user, a client id, or an address; {DEFAULT_NAME} is every other one", "user")
    if ip and (user or client_id):
        raise BadRequest("an address has quotas of its own: leave the user and the client id empty", "ip")
    own_keys = IP_KEYS if ip else CLIENT_KEYS
    values = {key: _number(key, text) for key, text in given.items() if text.strip()}
    for key in values:
        if key not in own_keys:
            raise BadRequest("addresses alone have it" if key in IP_KEYS else "users and client ids alone have it", key)
    before = (await entity_quotas(visitor, user, client_id, ip))["values"]
    changes = [OpData(key, value) for key, value in values.items() if before.get(key) != value]
    changes += [OpData(key, remove=True) for key in own_keys if key in before and key not in values]
    if changes:
        await alter_quotas(visitor, {"user": user, "client_id": client_id, "ip": ip}, changes)
    return {"user": user or None, "client_id": client_id or None, "ip": ip or None, "changed": len(changes)}


def _number(key: QuotaKey, text: str) -> float:
    plain = without_unit(key, text.strip().removesuffix("/s").removesuffix("%").strip())
    try:
        number = parse_double(plain)
    except ValueError:
        example = "such as 10MB" if key in _SIZES else "such as 25"
        raise BadRequest(f"{text.strip()!r} is no number, {example}", key) from None
    if not 0 < number < inf:
        raise BadRequest("write a number above 0; leave it empty for no quota", key)
    return number
