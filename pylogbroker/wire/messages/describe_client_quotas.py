"""DescribeClientQuotas (key 48): the quotas of entities that a filter matches (KIP-546).

Versions::

    0  first
    1  flexible
"""

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import (
    Boolean,
    ErrorText,
    Float64,
    Int8,
    Int16,
    Int32,
    Request,
    Response,
    String,
    fresh,
    struct,
)


@struct
class ComponentData:
    """Condition on a part of entities: 0 its name is `match`, 1 it is the default, 2 it exists."""

    entity_type: String = ""
    match_type: Int8 = 0
    match: String | None = ""


@struct
class DescribeClientQuotasRequest(Request):
    """Filter for quotas; with `strict`, entities have no parts but those of the components."""

    api_key, versions = APIS["describe_client_quotas"]

    components: list[ComponentData] = fresh(list)
    strict: Boolean = False


@struct
class EntityData:
    """Part of an entity; a null name stands for the default."""

    entity_type: String = ""
    entity_name: String | None = ""


@struct
class ValueData:
    key: String = ""
    value: Float64 = 0.0


@struct
class EntryData:
    entity: list[EntityData] = fresh(list)
    values: list[ValueData] = fresh(list)


@struct
class DescribeClientQuotasResponse(Response):
    api_key, versions = APIS["describe_client_quotas"]

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: ErrorText | None = ""
    entries: list[EntryData] | None = fresh(list)
