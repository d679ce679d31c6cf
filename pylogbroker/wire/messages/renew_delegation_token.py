"""RenewDelegationToken (key 39): postpone the expiry of a delegation token.

Versions::

    1  KIP-219 throttling
    2  flexible
"""

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import Bytes, Int16, Int32, Int64, Request, Response, struct


@struct
class RenewDelegationTokenRequest(Request):
    api_key, versions = APIS["renew_delegation_token"]

    hmac: Bytes = b""
    renew_period_ms: Int64 = 0


@struct
class RenewDelegationTokenResponse(Response):
    api_key, versions = APIS["renew_delegation_token"]

    error_code: Int16 = 0
    expiry_timestamp_ms: Int64 = 0
    throttle_time_ms: Int32 = 0
