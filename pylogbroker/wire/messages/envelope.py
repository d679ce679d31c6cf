"""Envelope (key 58): a broker passes a client's request on to the active controller (KIP-590).

Versions::

    0  flexible
"""

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import Bytes, Int16, Request, Response, struct


@struct
class EnvelopeRequest(Request):
    """The whole request with its header, the principal in Kafka's form, and the client's address in 4 or 16 bytes."""

    api_key, versions = APIS["envelope"]

    request_data: Bytes = b""
    request_principal: Bytes | None = None
    client_host_address: Bytes = b""


@struct
class EnvelopeResponse(Response):
    """The whole response with its header."""

    api_key, versions = APIS["envelope"]

    response_data: Bytes | None = None
    error_code: Int16 = 0
