"""Texts of the schemas that a schema refers to, also those that these refer to, within bounds."""

from __future__ import annotations

from typing import Final

import attrs

from pylogbroker.registry.errors import RegistryError
from pylogbroker.registry.state import RegistryState
from pylogbroker.schemas.values import Reference, Schema, Version

DEPTH_MAX: Final = 100
SCHEMAS_MAX: Final = 1000
CHARACTERS_MAX: Final = 16 * 1024 * 1024


def referred_version(state: RegistryState, subject: str, reference: Reference) -> Version:
    """Return the version that a reference of a subject's schema names; raise RegistryError."""
    name, number = state.referred(subject, reference)
    try:
        return state.version(name, number, deleted=True)
    except RegistryError as error:
        raise RegistryError.invalid_schema(
            f'No schema reference found for subject "{reference.subject}" and version {reference.version}'
        ) from error


def texts_of_references(state: RegistryState, subject: str, schema: Schema) -> dict[str, str]:
    """Return texts by names, each after those that it needs itself; raise RegistryError."""
    if not schema.references:
        return {}
    collection = _Collection(state)
    collection.add(subject, schema, ())
    return collection.texts


@attrs.define(eq=False, repr=False)
class _Collection:
    """Texts that are collected; what several schemas refer to is followed once."""

    _state: RegistryState
    texts: dict[str, str] = attrs.field(factory=dict, init=False)
    _followed: set[tuple[str, int]] = attrs.field(factory=set, init=False)
    _characters: int = attrs.field(default=0, init=False)

    def add(self, subject: str, schema: Schema, around: tuple[tuple[str, int], ...]) -> None:
        for reference in schema.references:
            used = referred_version(self._state, subject, reference)
            place = (used.subject, used.version)
            if place in around:
                raise RegistryError.invalid_schema(f"the schema {reference.name} refers to itself")
            if place not in self._followed:
                self._follow(place, used, around)
            self.texts[reference.name] = used.schema.text

    def _follow(self, place: tuple[str, int], used: Version, around: tuple[tuple[str, int], ...]) -> None:
        self._followed.add(place)
        self._characters += len(used.schema.text)
        if len(around) >= DEPTH_MAX:
            raise RegistryError.invalid_schema(f"references go through more than {DEPTH_MAX} schemas")
        if len(self._followed) > SCHEMAS_MAX:
            raise RegistryError.invalid_schema(f"it refers to more than {SCHEMAS_MAX:,} schemas")
        if self._characters > CHARACTERS_MAX:
            raise RegistryError.invalid_schema(f"what it refers to has more than {CHARACTERS_MAX:,} characters")
        self.add(used.subject, used.schema, (*around, place))
