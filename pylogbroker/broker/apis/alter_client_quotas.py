"""AlterClientQuotas (49): set or remove quotas of entities; each entity succeeds or fails alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.security.rules import on_cluster
from pylogbroker.broker.services import HasQuotas
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.long_loops import mapped, over
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.security.quotas import tree_layout
from pylogbroker.security.quotas.entities import DEFAULT, QuotaEntity, Quotas
from pylogbroker.security.quotas.filters import FIELDS
from pylogbroker.security.quotas.keys import BadQuota, QuotaKey, check, parse_ip
from pylogbroker.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    OpData,
    QuotaAlteration,
    QuotaAlterationResult,
)
from pylogbroker.wire.messages.describe_client_quotas import EntityData

_Parts = Mapping[str, str | None]


def _parts(alteration: QuotaAlteration) -> _Parts:
    """Return the names of an entity by type; of several names of one type, the last counts."""
    return {part.entity_type: part.entity_name for part in alteration.entity}


def _identity(parts: _Parts) -> frozenset[tuple[str, str | None]]:
    return frozenset(parts.items())


async def _reject(
    context: RequestContext, request: AlterClientQuotasRequest, code: ErrorCode
) -> AlterClientQuotasResponse:
    def reject(alteration: QuotaAlteration) -> QuotaAlterationResult:
        return QuotaAlterationResult(code, code.meaning, alteration.entity)

    return AlterClientQuotasResponse(entries=await mapped(reject, request.entries))


@serves(AlterClientQuotasRequest, access=[on_cluster(AclOperation.ALTER_CONFIGS, _reject)])
async def handle(
    services: HasQuotas, context: RequestContext, request: AlterClientQuotasRequest
) -> AlterClientQuotasResponse:
    alterations = [(_parts(alteration), alteration) async for alteration in over(request.entries)]
    times = Counter([_identity(parts) async for parts, _ in over(alterations)])
    distinct = {_identity(parts): (parts, alteration) async for parts, alteration in over(alterations)}
    results = []
    async for identity, (parts, alteration) in over(distinct.items()):
        result = QuotaAlterationResult(error_message=None, entity=[EntityData(*part) for part in parts.items()])
        try:
            if times[identity] > 1:
                raise _invalid("An entity is named more than once in the request")
            await _alter(services, parts, alteration.ops, request.validate_only)
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.detail
        results.append(result)
    return AlterClientQuotasResponse(entries=results)


async def _alter(services: HasQuotas, parts: _Parts, ops: Sequence[OpData], validate_only: bool) -> None:
    twice = [key for key, count in Counter(op.key for op in ops).items() if count > 1]
    if twice:
        raise _invalid(f"Duplicate quota key {twice[0]}")
    entity = _entity(parts)
    changes = _changes(entity, ops)

    def change(before: Quotas) -> Quotas:
        after = {**before, **changes}
        return {key: value for key, value in after.items() if value is not None}

    if not validate_only:
        await services.quotas.store.alter(entity, change)


def _entity(parts: _Parts) -> QuotaEntity:
    """Return the entity of a request; raise INVALID_REQUEST."""
    if not parts:
        raise _invalid("Invalid empty client quota entity")
    for kind, name in parts.items():
        if kind not in FIELDS:
            raise _invalid(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _invalid(f"Empty {kind} not supported")
        if name is not None and "\0" in name:
            raise _invalid(f"A {kind} has no NUL")
    if "ip" in parts:
        return _ip_entity(parts)
    entity = QuotaEntity(**{FIELDS[kind]: DEFAULT if name is None else name for kind, name in parts.items()})
    if not tree_layout.can_be_stored(entity):
        raise _invalid(f"Names are neither . nor .., and encoded at most {tree_layout.NAME_BYTES_MAX} bytes long")
    return entity


def _ip_entity(parts: _Parts) -> QuotaEntity:
    if len(parts) > 1:
        raise _invalid("Invalid quota entity combination, IP entity should not be combined with User or ClientId")
    name = parts["ip"]
    if name is None:
        return QuotaEntity(ip=DEFAULT)
    if parse_ip(name) is None:
        raise _invalid(f"{name} is not a valid IP address")
    return QuotaEntity(ip=name)


def _changes(entity: QuotaEntity, ops: Sequence[OpData]) -> dict[QuotaKey, float | None]:
    """Return new values, None for those to remove; raise INVALID_REQUEST."""
    changes: dict[QuotaKey, float | None] = {}
    for op in ops:
        if op.remove:
            if op.key in frozenset(QuotaKey):  # others are not there: that is no error
                changes[QuotaKey(op.key)] = None
            continue
        try:
            changes[check(op.key, op.value, entity.ip is not None)] = op.value
        except BadQuota as error:
            raise _invalid(str(error)) from error
    return changes


def _invalid(detail: str) -> KafkaError:
    return KafkaError(detail, ErrorCode.INVALID_REQUEST)
