"""Quotas of users, client ids and addresses: list, set, remove."""

from __future__ import annotations

from typing import Any, Final

from pylogbroker.broker.slices import sort_in_steps
from pylogbroker.rpc.errors import raise_for
from pylogbroker.security.quotas.filters import FIELDS
from pylogbroker.security.quotas.keys import QuotaKey
from pylogbroker.web.query import BadQuery, Query
from pylogbroker.web.rows import slice_rows
from pylogbroker.web.visitors import Visitor
from pylogbroker.wire.messages.alter_client_quotas import AlterClientQuotasRequest, OpData, QuotaAlteration
from pylogbroker.wire.messages.describe_client_quotas import DescribeClientQuotasRequest, EntityData, EntryData

KEYS: Final = tuple(map(str, QuotaKey))
DEFAULT_NAME: Final = "(default)"
"""Stands for all that have no quota of their own, as in the command."""


async def quotas(visitor: Visitor, query: Query) -> dict[str, Any]:
    """Return entities with their quotas, from the `start`th on, of those with a part whose name contains `search`."""
    search, slices = query.text("search"), visitor.services.runtime.slices
    answer = await visitor.ask(DescribeClientQuotasRequest())
    raise_for(answer.error_code, answer.error_message)
    found = [_row(each) async for each in slices.over(answer.entries or ())]
    matching = [
        row async for row in slices.over(found) if any(search in (row[field] or "") for field in FIELDS.values())
    ]
    ordered = await slices.run(sort_in_steps(matching, key=_order))
    values, shown = slice_rows(query, [row async for row in slices.over(ordered)])
    return {"search": search, "keys": KEYS, **values, "quotas": shown}


def _row(found: EntryData) -> dict[str, Any]:
    names = {each.entity_type: each.entity_name for each in found.entity}
    parts = {field: (names[kind] or DEFAULT_NAME) if kind in names else None for kind, field in FIELDS.items()}
    return {**parts, "values": [{"key": each.key, "value": each.value} for each in found.values]}


def _order(row: dict[str, Any]) -> list[str]:
    return [row[field] or "" for field in FIELDS.values()]


async def set_quota(visitor: Visitor, query: Query) -> dict[str, Any]:
    """Set a quota of an entity, or remove it."""
    names = {kind: query.text(field) for kind, field in FIELDS.items()}
    parts = [EntityData(kind, None if name == DEFAULT_NAME else name) for kind, name in names.items() if name]
    if not parts:
        raise BadQuery(f"give {', '.join(FIELDS.values())}, or several")
    query.filled("key")
    key = query.choice("key", KEYS)
    change = OpData(key, remove=True) if query.flag("remove") else OpData(key, query.decimal("value"))
    [found] = (await visitor.ask(AlterClientQuotasRequest([QuotaAlteration(parts, [change])]))).entries
    raise_for(found.error_code, found.error_message)
    return {field: names[kind] or None for kind, field in FIELDS.items()} | {"key": key}
