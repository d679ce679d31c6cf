"""PushTelemetry (72): give a client's metrics to the receivers (KIP-714)."""

from __future__ import annotations

from typing import Protocol

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.security.rules import unchecked
from pylogbroker.broker.services import HasTelemetry
from pylogbroker.errors import KafkaError
from pylogbroker.wire.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse


class _Services(HasTelemetry, Protocol):
    """Services that this API uses."""


@serves(PushTelemetryRequest, access=[unchecked])
async def handle(services: _Services, context: RequestContext, request: PushTelemetryRequest) -> PushTelemetryResponse:
    try:
        await services.telemetry.push(context, request)
    except KafkaError as error:
        return PushTelemetryResponse(error_code=error.code)
    return PushTelemetryResponse()
