"""SaslAuthenticate (key 36): a token of the chosen mechanism.

Versions::

    1  `session_lifetime_ms` (KIP-368)
    2  flexible
"""

from typing import Annotated

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import IGNORABLE, Bytes, Int16, Int64, Request, Response, Since, String, struct


@struct
class SaslAuthenticateRequest(Request):
    api_key, versions = APIS["sasl_authenticate"]

    auth_bytes: Bytes = b""


@struct
class SaslAuthenticateResponse(Response):
    api_key, versions = APIS["sasl_authenticate"]

    error_code: Int16 = 0
    error_message: String | None = None
    auth_bytes: Bytes = b""
    session_lifetime_ms: Annotated[Int64, Since(1), IGNORABLE] = 0
