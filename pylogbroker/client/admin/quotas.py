"""Quotas of users, client ids and addresses: describe and alter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import attrs

from pylogbroker.client import arguments
from pylogbroker.client.admin.routing import Router, deferred, outcome
from pylogbroker.errors import KafkaError
from pylogbroker.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    OpData,
    QuotaAlteration,
)
from pylogbroker.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
)

#: Parts of an entity, sorted: `(("user", "alice"),)`. The types are user, client-id and ip; None is the default entity.
Entity = tuple[tuple[str, str | None], ...]

_EXACT, _DEFAULT, _ANY = range(3)


class AnyName:
    """Stands for all names in a filter."""


@attrs.frozen(eq=False, repr=False)
class QuotaAdmin:
    _router: Router

    @deferred
    async def describe(
        self, parts: Mapping[str, str | type[AnyName] | None] | None = None, *, strict: bool = False
    ) -> dict[Entity, dict[str, float]]:
        """Return the quotas of entities that have these parts, and with `strict` no others.

        A part is a name, None for the default entity, or AnyName.
        """
        rows = [_component(kind, name) for kind, name in (parts or {}).items()]
        request = DescribeClientQuotasRequest(rows, strict)

        def read(
            response: DescribeClientQuotasResponse,
        ) -> Iterator[tuple[None, dict[Entity, dict[str, float]] | KafkaError]]:
            quotas = {
                _entity(entry.entity): {value.key: value.value for value in entry.values}
                for entry in response.entries or ()
            }
            yield None, outcome("quotas", response.error_code, response.error_message, quotas)

        return (await self._router.ask_any([None], lambda _: request, read))[None]

    @deferred
    async def alter(self, quotas: Mapping[Entity, Mapping[str, float | None]], *, validate_only: bool = False) -> None:
        """Set quotas of entities; None removes one. The others stay."""
        given = {tuple(sorted(entity)): values for entity, values in quotas.items()}

        def make(entities: Sequence[Entity]) -> AlterClientQuotasRequest:
            rows = [
                QuotaAlteration(
                    [EntityData(*part) for part in entity], [_change(*quota) for quota in given[entity].items()]
                )
                for entity in entities
            ]
            return AlterClientQuotasRequest(rows, validate_only)

        def read(response: AlterClientQuotasResponse) -> Iterator[tuple[Entity, KafkaError | None]]:
            for entry in response.entries:
                entity = _entity(entry.entity)
                yield entity, outcome(_entity_text(entity), entry.error_code, entry.error_message, None)

        await self._router.ask(self._router.controller(), given, make, read)


def _entity_text(entity: Entity) -> str:
    return ", ".join(f"{kind} {'(default)' if name is None else name}" for kind, name in entity)


def _component(kind: str, name: str | type[AnyName] | None) -> ComponentData:
    if name is None:
        return ComponentData(kind, _DEFAULT, None)
    if isinstance(name, str):
        return ComponentData(kind, _EXACT, name)
    if name is not AnyName:
        raise arguments.invalid(kind, name, "a name, None or AnyName")
    return ComponentData(kind, _ANY, None)


def _change(key: str, value: float | None) -> OpData:
    return OpData(key, remove=True) if value is None else OpData(key, value)


def _entity(parts: Sequence[EntityData]) -> Entity:
    return tuple(sorted((part.entity_type, part.entity_name) for part in parts))
