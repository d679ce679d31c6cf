"""Quotas of users, client ids and addresses: list, set, remove."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, TypedDict

from pylogbroker.rpc.errors import raise_for
from pylogbroker.security.quotas.filters import FIELDS
from pylogbroker.security.quotas.keys import QuotaKey
from pylogbroker.web.parameters import ROWS_MAX, Count, Name, Search, Start
from pylogbroker.web.router import BadRequest
from pylogbroker.web.rows import RowRange, slice_rows
from pylogbroker.web.visitors import Visitor
from pylogbroker.wire.messages.alter_client_quotas import AlterClientQuotasRequest, OpData, QuotaAlteration
from pylogbroker.wire.messages.describe_client_quotas import DescribeClientQuotasRequest, EntityData, EntryData

DEFAULT_NAME: Final = "(default)"
"""Stands for all that have no quota of their own, as in the command."""


Entity = Annotated[Name, f"{DEFAULT_NAME} stands for all without their own"]


class QuotaValue(TypedDict):
    key: str
    value: float


class QuotaNames(TypedDict):
    """Parts of an entity; null for those that it does not have."""

    user: str | None
    client_id: str | None
    ip: str | None


class QuotaRow(QuotaNames):
    values: list[QuotaValue]


class QuotaList(RowRange):
    search: str
    keys: list[str]
    quotas: list[QuotaRow]


class ChangedQuota(QuotaNames):
    key: str


async def quotas(visitor: Visitor, search: Search = "", start: Start = 0, count: Count = ROWS_MAX) -> QuotaList:
    """Return entities with their quotas, from the `start`th on, of those with a part whose name contains `search`."""
    slices, rows = visitor.services.runtime.slices, await described_quotas(visitor)
    matching = [row async for row in slices.over(rows) if any(search in name for name in _order(row))]
    values, shown = slice_rows(start, count, matching)
    return {"search": search, "keys": [*map(str, QuotaKey)], **values, "quotas": [*shown]}


async def described_quotas(visitor: Visitor) -> list[QuotaRow]:
    """Return all entities with quotas, by user, client id and address."""
    slices, answer = visitor.services.runtime.slices, await visitor.ask(DescribeClientQuotasRequest())
    raise_for(answer.error_code, answer.error_message)
    rows = [_row(entry) async for entry in slices.over(answer.entries or ())]
    return await slices.in_order(rows, key=_order)


def _row(entry: EntryData) -> QuotaRow:
    names = {FIELDS[part.entity_type]: part.entity_name or DEFAULT_NAME for part in entry.entity}
    values: list[QuotaValue] = [{"key": value.key, "value": value.value} for value in entry.values]
    return {
        "user": names.get("user"),
        "client_id": names.get("client_id"),
        "ip": names.get("ip"),
        "values": values,
    }


def _order(row: QuotaRow) -> list[str]:
    return [row["user"] or "", row["client_id"] or "", row["ip"] or ""]


async def set_quota(
    visitor: Visitor, key: QuotaKey, value: float, user: Entity = "", client_id: Entity = "", ip: Entity = ""
) -> ChangedQuota:
    """Set a quota of a user, a client id or both, or of an address."""
    return await _alter(visitor, {"user": user, "client_id": client_id, "ip": ip}, OpData(key, value))


async def remove_quota(
    visitor: Visitor, key: QuotaKey, user: Entity = "", client_id: Entity = "", ip: Entity = ""
) -> ChangedQuota:
    """Remove a quota of an entity."""
    return await _alter(visitor, {"user": user, "client_id": client_id, "ip": ip}, OpData(key, remove=True))


async def _alter(visitor: Visitor, given: Mapping[str, str], change: OpData) -> ChangedQuota:
    if not any(given.values()):
        raise BadRequest(f"give {', '.join(FIELDS.values())}, or several")
    await alter_quotas(visitor, given, [change])
    return {
        "user": given["user"] or None,
        "client_id": given["client_id"] or None,
        "ip": given["ip"] or None,
        "key": change.key,
    }


async def alter_quotas(visitor: Visitor, given: Mapping[str, str], changes: list[OpData]) -> None:
    """Change quotas of the entity that has these names; raise KafkaError."""
    names = {kind: given[field] for kind, field in FIELDS.items()}
    parts = [EntityData(kind, None if name == DEFAULT_NAME else name) for kind, name in names.items() if name]
    result = await visitor.ask_one(AlterClientQuotasRequest([QuotaAlteration(parts, changes)]), "entries")
    raise_for(result.error_code, result.error_message)
