"""Topics, groups, brokers, users and schemas by a part of their name, a few at a time, to go to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final, TypedDict

from pylogbroker.errors import KafkaError
from pylogbroker.security.acls.bindings import CLUSTER_NAME, AclOperation, AclResourceType
from pylogbroker.web.group_views import groups
from pylogbroker.web.parameters import Search
from pylogbroker.web.user_views import users
from pylogbroker.web.visitors import Visitor

DESTINATIONS_MAX: Final = 8


class Destination(TypedDict):
    kind: str
    name: str


class Destinations(TypedDict):
    to: str
    destinations: list[Destination]


async def go(visitor: Visitor, to: Search = "") -> Destinations:
    """Return the best matches: those that are the text, then those that begin with it, then the others."""
    matches = [match async for match in _matches(visitor, to)] if to else []
    matches.sort(key=lambda match: (match["name"] != to, not match["name"].startswith(to), len(match["name"])))
    return {"to": to, "destinations": matches[:DESTINATIONS_MAX]}


async def _matches(visitor: Visitor, text: str) -> AsyncIterator[Destination]:
    services = visitor.services
    own = None if visitor.schemas is None else visitor.schemas.own
    if own is not None:
        with suppress(KafkaError):
            for subject in await own.subjects(visitor.registry_sender, text):
                yield {"kind": "schema", "name": subject}
    async for name in services.runtime.slices.over(services.metadata.topics):
        if text in name and visitor.sees_topic(name):
            yield {"kind": "topic", "name": name}
    with suppress(KafkaError):
        for group in (await groups(visitor, search=text, count=DESTINATIONS_MAX))["groups"]:
            yield {"kind": "share group" if group["type"] == "share" else "group", "name": group["id"]}
    if visitor.allows(AclOperation.DESCRIBE, AclResourceType.CLUSTER, CLUSTER_NAME):
        for broker_id in services.metadata.image.brokers:
            if text == str(broker_id):
                yield {"kind": "broker", "name": text}
    with suppress(KafkaError):
        for user in (await users(visitor, search=text, count=DESTINATIONS_MAX))["users"]:
            yield {"kind": "user", "name": user["name"]}
