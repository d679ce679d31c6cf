"""Requests to the registry as handlers get them, and parameters that several have.

Newer versions of Confluent's interface have more members in answers: `guid`, and the `version` of a registration. Older
clients reject unknown members. So only clients get them that send the header Confluent-Accept-Unknown-Properties.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Annotated, Any, Final, TypeVar

import attrs

from pylogbroker.registry.callers import RegistryCaller
from pylogbroker.registry.errors import RegistryError
from pylogbroker.registry.guids import guid_of
from pylogbroker.registry.registry import SchemaRegistry
from pylogbroker.registry.state import LATEST
from pylogbroker.registry.subject_settings import SubjectSettings
from pylogbroker.schemas.values import Version
from pylogbroker.web.router.values import Capped, OnlyTrue

ITEMS_MAX: Final = 20_000
"""Items of a list that is answered."""

_VERSION_MAX: Final = 2**31 - 1
Flag = Annotated[bool, OnlyTrue]
T = TypeVar("T")
Prefix = Annotated[str, "first characters of a subject"]
Form = Annotated[str, "resolved for Avro, serialized for Protobuf; by default as registered"]
Skipped = Annotated[int, Capped(), "first items of the answer to leave out"]
Most = Annotated[int | None, "items of the answer at most"]
Body = Mapping[str, Any]


@attrs.frozen(eq=False, repr=False)
class RegistryCall:
    """A request: who sent it, and what parameters cannot say."""

    registry: SchemaRegistry
    caller: RegistryCaller
    accepts_unknown_members: bool = False
    pairs: Mapping[str, Sequence[str]] = attrs.field(factory=dict)
    """Parameters of the query that may occur several times."""
    cluster_id: str = ""

    @property
    def settings(self) -> SubjectSettings:
        return SubjectSettings(self.registry)


def page(items: Iterable[T], offset: int, limit: int | None, most: int) -> list[T]:
    """Return a part of a list; a negative limit, as in Confluent's interface, means as many as there may be."""
    count = most if limit is None or not 0 <= limit <= most else limit
    return list(islice(items, offset, offset + count))


def number_of(text: str) -> int:
    """Return a version's number; raise RegistryError."""
    if text in ("latest", str(LATEST)):
        return LATEST
    if not re.fullmatch("[0-9]{1,10}", text) or not 1 <= int(text) <= _VERSION_MAX:
        raise RegistryError.invalid_version(text)
    return int(text)


async def version_fields(call: RegistryCall, version: Version, form: str = "") -> dict[str, Any]:
    """Return a version with its schema in a form."""
    fields = {**version.as_json(), "schema": await call.registry.formatted(version.subject, version.schema, form)}
    if call.accepts_unknown_members:
        fields["guid"] = str(guid_of(version.schema))
        fields |= {"deleted": True} if version.is_deleted else {}
    return fields
