"""The schema registry that is a part of this broker, as the web UI and the HTTP API ask it."""

from __future__ import annotations

from typing import Protocol

import attrs

from pylogbroker.broker.security.access import Access
from pylogbroker.schemas.registry_client import Answer


@attrs.frozen(repr=False)
class RegistrySender:
    """Visitor in whose name a request is sent; without `access`, there are no rules."""

    principal: str
    access: Access | None = None
    authorization: str = ""
    """Header Authorization of the visitor's request, for the broker that makes changes."""


class HostedRegistry(Protocol):
    async def ask(self, method: str, path: str, content: bytes | None) -> Answer:
        """Return the answer to a question of the broker itself, which may read everything."""

    async def ask_for(self, sender: RegistrySender, method: str, path: str, content: bytes | None) -> Answer:
        """Return the answer to a visitor's request, whose rights decide; a change is made by the leader."""
