"""ExpireDelegationToken (key 40): change the expiry of a delegation token, or delete the token.

Versions::

    1  KIP-219 throttling
    2  flexible
"""

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import Bytes, Int16, Int32, Int64, Request, Response, struct


@struct
class ExpireDelegationTokenRequest(Request):
    api_key, versions = APIS["expire_delegation_token"]

    hmac: Bytes = b""
    expiry_time_period_ms: Int64 = 0


@struct
class ExpireDelegationTokenResponse(Response):
    api_key, versions = APIS["expire_delegation_token"]

    error_code: Int16 = 0
    expiry_timestamp_ms: Int64 = 0
    throttle_time_ms: Int32 = 0
