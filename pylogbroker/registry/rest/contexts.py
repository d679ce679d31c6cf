"""Requests about contexts."""

from __future__ import annotations

from typing import Annotated

from pylogbroker.registry.rest.calls import (
    ITEMS_MAX,
    Most,
    RegistryCall,
    Skipped,
    page,
)
from pylogbroker.schemas.subjects import QualifiedSubject


async def contexts(
    call: RegistryCall,
    contextPrefix: Annotated[str, "first characters of a context"] = "",
    offset: Skipped = 0,
    limit: Most = None,
) -> list[str]:
    """Return the contexts."""
    names = [name for name in (await call.registry.catch_up()).contexts if name.startswith(contextPrefix)]
    return page(names, offset, limit, ITEMS_MAX)


async def delete_context(call: RegistryCall, context: str) -> None:
    """Delete a context without subjects."""
    name = str(QualifiedSubject.parse(context))
    call.caller.check_configure(name)
    await call.registry.delete_context(name)
