"""DescribeDelegationToken (key 41): describe the delegation tokens of some owners.

Versions::

    1  KIP-219 throttling
    2  flexible
    3  the response has the requesters of tokens (KIP-373)
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
class DescribeDelegationTokenOwner:
    principal_type: String = ""
    principal_name: String = ""


@struct
class DescribeDelegationTokenRequest(Request):
    """Null asks for the tokens of all owners, an empty list for none."""

    api_key, versions = APIS["describe_delegation_token"]

    owners: list[DescribeDelegationTokenOwner] | None = fresh(list)


@struct
class DescribedDelegationTokenRenewer:
    principal_type: String = ""
    principal_name: String = ""


@struct
class DescribedDelegationToken:
    principal_type: String = ""
    principal_name: String = ""
    token_requester_principal_type: Annotated[String, Since(3)] = ""
    token_requester_principal_name: Annotated[String, Since(3)] = ""
    issue_timestamp: Int64 = 0
    expiry_timestamp: Int64 = 0
    max_timestamp: Int64 = 0
    token_id: String = ""
    hmac: Bytes = b""
    renewers: list[DescribedDelegationTokenRenewer] = fresh(list)


@struct
class DescribeDelegationTokenResponse(Response):
    api_key, versions = APIS["describe_delegation_token"]

    error_code: Int16 = 0
    tokens: list[DescribedDelegationToken] = fresh(list)
    throttle_time_ms: Int32 = 0
