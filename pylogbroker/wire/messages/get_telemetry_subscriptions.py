"""GetTelemetrySubscriptions (key 71): which metrics a client is to push (KIP-714)."""

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import NO_ID, Boolean, Int8, Int16, Int32, Request, Response, String, Uuid, fresh, struct


@struct
class GetTelemetrySubscriptionsRequest(Request):
    """The first request of a client has no id."""

    api_key, versions = APIS["get_telemetry_subscriptions"]

    client_instance_id: Uuid = NO_ID


@struct
class GetTelemetrySubscriptionsResponse(Response):
    """`requested_metrics` are prefixes of names: none for no metrics, an empty one for all."""

    api_key, versions = APIS["get_telemetry_subscriptions"]

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    client_instance_id: Uuid = NO_ID
    subscription_id: Int32 = 0
    accepted_compression_types: list[Int8] = fresh(list)
    push_interval_ms: Int32 = 0
    telemetry_max_bytes: Int32 = 0
    delta_temporality: Boolean = False
    requested_metrics: list[String] = fresh(list)
