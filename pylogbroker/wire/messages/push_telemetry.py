"""PushTelemetry (key 72): metrics of a client (KIP-714)."""

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import NO_ID, Boolean, Bytes, Int8, Int16, Int32, Request, Response, Uuid, struct


@struct
class PushTelemetryRequest(Request):
    """`metrics` are MetricsData of OpenTelemetry, compressed by the codec of this number."""

    api_key, versions = APIS["push_telemetry"]

    client_instance_id: Uuid = NO_ID
    subscription_id: Int32 = 0
    terminating: Boolean = False
    compression_type: Int8 = 0
    metrics: Bytes = b""


@struct
class PushTelemetryResponse(Response):
    api_key, versions = APIS["push_telemetry"]

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
