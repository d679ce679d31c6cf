"""CreateDelegationToken (key 38): create a token by which others can connect as its owner (KIP-48).

Versions::

    1  KIP-219 throttling
    2  flexible
    3  an owner other than the sender; the response has the requester (KIP-373)
"""

from typing import Annotated

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import (
    Bytes,
    Int16,
    Int32,
    Int64,
    Request,
    Response,
    Since,
    String,
    fresh,
    struct,
)


@struct
class CreatableRenewers:
    principal_type: String = ""
    principal_name: String = ""


@struct
class CreateDelegationTokenRequest(Request):
    """Without an owner's name, the sender owns the token. A lifetime of -1 is the broker's longest."""

    api_key, versions = APIS["create_delegation_token"]

    owner_principal_type: Annotated[String | None, Since(3)] = ""
    owner_principal_name: Annotated[String | None, Since(3)] = ""
    renewers: list[CreatableRenewers] = fresh(list)
    max_lifetime_ms: Int64 = 0


@struct
class CreateDelegationTokenResponse(Response):
    api_key, versions = APIS["create_delegation_token"]

    error_code: Int16 = 0
    principal_type: String = ""
    principal_name: String = ""
    token_requester_principal_type: Annotated[String, Since(3)] = ""
    token_requester_principal_name: Annotated[String, Since(3)] = ""
    issue_timestamp_ms: Int64 = 0
    expiry_timestamp_ms: Int64 = 0
    max_timestamp_ms: Int64 = 0
    token_id: String = ""
    hmac: Bytes = b""
    throttle_time_ms: Int32 = 0
