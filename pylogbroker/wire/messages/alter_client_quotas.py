"""AlterClientQuotas (key 49): set or remove quotas of entities, each for itself (KIP-546).

Versions::

    0  first
    1  flexible
"""

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.messages.describe_client_quotas import EntityData
from pylogbroker.wire.schema import (
    Boolean,
    ErrorText,
    Float64,
    Int16,
    Int32,
    Request,
    Response,
    String,
    fresh,
    struct,
)


@struct
class OpData:
    """New value of a quota; it is ignored with `remove`."""

    key: String = ""
    value: Float64 = 0.0
    remove: Boolean = False


@struct
class QuotaAlteration:
    entity: list[EntityData] = fresh(list)
    ops: list[OpData] = fresh(list)


@struct
class AlterClientQuotasRequest(Request):
    api_key, versions = APIS["alter_client_quotas"]

    entries: list[QuotaAlteration] = fresh(list)
    validate_only: Boolean = False


@struct
class QuotaAlterationResult:
    error_code: Int16 = 0
    error_message: ErrorText | None = ""
    entity: list[EntityData] = fresh(list)


@struct
class AlterClientQuotasResponse(Response):
    """One result for each entity of the request."""

    api_key, versions = APIS["alter_client_quotas"]

    throttle_time_ms: Int32 = 0
    entries: list[QuotaAlterationResult] = fresh(list)
