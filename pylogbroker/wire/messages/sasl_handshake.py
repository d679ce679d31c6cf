"""SaslHandshake (key 17): choose a mechanism.

Versions::

    0  tokens without headers follow
    1  SaslAuthenticate follows
"""

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import Int16, Request, Response, String, fresh, struct


@struct
class SaslHandshakeRequest(Request):
    api_key, versions = APIS["sasl_handshake"]

    mechanism: String = ""


@struct
class SaslHandshakeResponse(Response):
    api_key, versions = APIS["sasl_handshake"]

    error_code: Int16 = 0
    mechanisms: list[String] = fresh(list)
