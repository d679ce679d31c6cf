"""DescribeClientQuotas (48): the quotas of entities that a filter matches; none if the answer would be too long."""

from __future__ import annotations

from typing import Final

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.requests.limits import within_budget
from pylogbroker.broker.security.rules import on_cluster
from pylogbroker.broker.services import HasQuotas
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.security.quotas.entities import DEFAULT, QuotaEntity, Quotas
from pylogbroker.security.quotas.filters import FIELDS, parse_filter
from pylogbroker.wire.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

_ENTRY_BYTES: Final = 40  # besides names
_VALUE_BYTES: Final = 35


def _reject(
    context: RequestContext, request: DescribeClientQuotasRequest, code: ErrorCode
) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(error_code=code, error_message=None, entries=None)


@serves(DescribeClientQuotasRequest, access=[on_cluster(AclOperation.DESCRIBE_CONFIGS, _reject)])
async def handle(
    services: HasQuotas, context: RequestContext, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    try:
        selected = parse_filter(request.components, request.strict).select(services.quotas.store.table)
        entries = [
            EntryData(_parts(entity), [ValueData(key, value) for key, value in quotas.items()])
            async for entity, quotas in within_budget(selected, _size)
        ]
    except KafkaError as error:
        return DescribeClientQuotasResponse(error_code=error.code, error_message=error.detail, entries=None)
    return DescribeClientQuotasResponse(entries=entries)


def _size(row: tuple[QuotaEntity, Quotas]) -> int:
    entity, quotas = row
    return _ENTRY_BYTES + _VALUE_BYTES * len(quotas) + sum(len(name or "") for _, name in _names(entity))


def _parts(entity: QuotaEntity) -> list[EntityData]:
    return [EntityData(kind, None if name == DEFAULT else name) for kind, name in _names(entity) if name is not None]


def _names(entity: QuotaEntity) -> list[tuple[str, str | None]]:
    return [(kind, getattr(entity, field)) for kind, field in FIELDS.items()]
