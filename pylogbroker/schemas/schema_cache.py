"""Codecs and types of the schemas that records name: each schema is asked for once, usable or not.

Records may be no content of serializers at all, and name another schema each. So the registry is not asked any more
after many schemas that could not be used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar
from uuid import UUID

import attrs

from pylogbroker.schemas.errors import InvalidSchema, SchemaError, Undecodable, UnknownSchema
from pylogbroker.schemas.registry_client import RegistryClient, ResolvedSchema, blocking

UNUSABLE_MAX: Final = 1000
"""Schemas that are not usable, after which no other one is asked for."""
_UNUSABLE: Final = (UnknownSchema, InvalidSchema, Undecodable)
_Made = TypeVar("_Made")


@attrs.define(eq=False, repr=False)
class SchemaCache(Generic[_Made]):
    """`make` gets the id or GUID of a schema, and the schema; it raises SchemaError."""

    _client: RegistryClient
    _make: Callable[[int | UUID, ResolvedSchema], _Made]
    _made: dict[int | UUID, _Made] = attrs.field(factory=dict, init=False)
    _unusable: dict[int | UUID, tuple[type[SchemaError], str]] = attrs.field(factory=dict, init=False)

    def get(self, key: int | UUID) -> _Made:
        """Return what was made of a schema. Blocks; raise SchemaError.

        Only errors that a later request would get, too, are kept: those of the schema, not those of the connection.
        """
        if (made := self._made.get(key)) is not None:
            return made
        if (unusable := self._unusable.get(key)) is not None:
            kind, text = unusable
            raise kind(text)  # a kept exception would grow by a traceback each time
        if len(self._unusable) >= UNUSABLE_MAX:
            raise UnknownSchema(
                f"{UNUSABLE_MAX:,} other schemas that records name cannot be used, so the schema registry at"
                f" {self._client.where} is not asked for more: are these contents of its serializers?"
            )
        try:
            made = self._made[key] = self._make(key, blocking(self._client.by_key(key)))
        except _UNUSABLE as error:
            self._unusable[key] = type(error), str(error)
            raise
        return made
