"""UnregisterBroker (key 64): remove a stopped broker from the cluster of KRaft controllers.

Versions::

    0  flexible
"""

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import ErrorText, Int16, Int32, Request, Response, struct


@struct
class UnregisterBrokerRequest(Request):
    api_key, versions = APIS["unregister_broker"]

    broker_id: Int32 = 0


@struct
class UnregisterBrokerResponse(Response):
    api_key, versions = APIS["unregister_broker"]

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: ErrorText | None = None
