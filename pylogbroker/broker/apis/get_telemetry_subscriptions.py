"""GetTelemetrySubscriptions (71): say which metrics a client is to push (KIP-714)."""

from __future__ import annotations

from typing import Protocol

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.client_telemetry import ACCEPTED_CODECS
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.security.rules import unchecked
from pylogbroker.broker.services import HasTelemetry
from pylogbroker.errors import KafkaError
from pylogbroker.wire.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from pylogbroker.wire.schema import NO_ID


class _Services(HasTelemetry, Protocol):
    """Services that this API uses."""


@serves(GetTelemetrySubscriptionsRequest, access=[unchecked])
def handle(
    services: _Services, context: RequestContext, request: GetTelemetrySubscriptionsRequest
) -> GetTelemetrySubscriptionsResponse:
    telemetry = services.telemetry
    try:
        instance_id, subscription = telemetry.subscribe(request.client_instance_id)
    except KafkaError as error:
        return GetTelemetrySubscriptionsResponse(error_code=error.code)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance_id if request.client_instance_id == NO_ID else NO_ID,
        subscription_id=subscription.id,
        accepted_compression_types=list(ACCEPTED_CODECS),
        push_interval_ms=subscription.interval_ms,
        telemetry_max_bytes=telemetry.bytes_max,
        delta_temporality=True,
        requested_metrics=list(subscription.metric_prefixes),
    )
