"""Filters of DescribeClientQuotas: conditions on the parts of entities."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Final, Protocol

import attrs

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.security.quotas.entities import DEFAULT, QuotaEntity, Quotas, QuotaTable

FIELDS: Final = {"user": "user", "client-id": "client_id", "ip": "ip"}
"""Fields of `QuotaEntity` by the types of requests."""


class Match(IntEnum):
    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2


class Component(Protocol):
    @property
    def entity_type(self) -> str: ...
    @property
    def match_type(self) -> int: ...
    @property
    def match(self) -> str | None: ...


@attrs.frozen
class QuotaFilter:
    """Names by field, None for any. With `strict`, entities have no other parts."""

    names: dict[str, str | None]
    strict: bool

    def select(self, table: QuotaTable) -> Iterator[tuple[QuotaEntity, Quotas]]:
        if self.strict and not self.names:
            return iter(())
        return ((entity, quotas) for entity, quotas in table.entities.items() if self._matches(entity))

    def _matches(self, entity: QuotaEntity) -> bool:
        parts = {field: name for field, name in zip(entity._fields, entity, strict=True) if name is not None}
        if self.strict and len(parts) != len(self.names):
            return False
        return all(field in parts and name in (None, parts[field]) for field, name in self.names.items())


def parse_filter(components: Sequence[Component], strict: bool) -> QuotaFilter:
    """Return a request's filter; raise KafkaError as Kafka does."""
    criteria: dict[str, str | None] = {}
    for component in components:
        if not component.entity_type:
            raise _invalid("Invalid empty entity type.")
        field = FIELDS.get(component.entity_type)
        if field in criteria:
            raise _invalid(f"Entity type {component.entity_type} cannot appear more than once in the filter.")
        if field is None:
            raise KafkaError(f"Unsupported entity type {component.entity_type}", ErrorCode.UNSUPPORTED_VERSION)
        criteria[field] = _wanted_name(component)
    if "ip" in criteria and len(criteria) > 1:
        raise _invalid(
            "Invalid entity filter component combination. IP filter component should not be used with user or "
            "clientId filter component."
        )
    return QuotaFilter(criteria, strict)


def _wanted_name(component: Component) -> str | None:
    name = component.match
    if component.match_type == Match.EXACT:
        if name is None:
            raise _invalid("Request specified MATCH_TYPE_EXACT, but set match string to null.")
        return name
    if component.match_type not in (Match.DEFAULT, Match.SPECIFIED):
        raise _invalid(f"Unknown match type {component.match_type}")
    kind = Match(component.match_type).name
    if name is not None:
        raise _invalid(f"Request specified MATCH_TYPE_{kind}, but also specified a match string.")
    return DEFAULT if component.match_type == Match.DEFAULT else None


def _invalid(detail: str) -> KafkaError:
    return KafkaError(detail, ErrorCode.INVALID_REQUEST)
