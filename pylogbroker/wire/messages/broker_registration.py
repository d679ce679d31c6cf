"""BrokerRegistration (key 62): a broker joins the cluster of KRaft controllers (KIP-631).

Versions::

    0  flexible
    1  brokers that migrate from ZooKeeper (KIP-866)
    2  log directories (KIP-858)
    3  previous broker epoch (KIP-966)
    4  features with minimum 0 may be named
"""

from typing import Annotated

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.metadata_records import BrokerEndpoint, FeatureRange
from pylogbroker.wire.schema import (
    IGNORABLE,
    NO_ID,
    Boolean,
    Int16,
    Int32,
    Int64,
    Request,
    Response,
    Since,
    String,
    Uuid,
    fresh,
    struct,
)


@struct
class BrokerRegistrationRequest(Request):
    """An incarnation is one life of a broker's process."""

    api_key, versions = APIS["broker_registration"]

    broker_id: Int32 = 0
    cluster_id: String = ""
    incarnation_id: Uuid = NO_ID
    listeners: list[BrokerEndpoint] = fresh(list)
    features: list[FeatureRange] = fresh(list)
    rack: String | None = None
    is_migrating_zk_broker: Annotated[Boolean, Since(1)] = False
    log_dirs: Annotated[list[Uuid], Since(2), IGNORABLE] = fresh(list)
    previous_broker_epoch: Annotated[Int64, Since(3), IGNORABLE] = -1


@struct
class BrokerRegistrationResponse(Response):
    api_key, versions = APIS["broker_registration"]

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    broker_epoch: Int64 = -1
