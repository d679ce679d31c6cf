"""ElectLeaders (key 43): elect the preferred leaders of partitions, or replicas that are not in sync.

Versions::

    0  preferred leaders only
    1  `election_type`; an error for the whole (KIP-460)
    2  flexible
"""

from typing import Annotated

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import (
    ErrorText,
    Int8,
    Int16,
    Int32,
    Request,
    Response,
    Since,
    String,
    fresh,
    struct,
)


@struct
class ElectLeadersTopic:
    topic: String = ""
    partitions: list[Int32] = fresh(list)


@struct
class ElectLeadersRequest(Request):
    """`election_type` 0 elects the preferred replica, 1 a live one. Null partitions are all partitions."""

    api_key, versions = APIS["elect_leaders"]

    election_type: Annotated[Int8, Since(1)] = 0
    topic_partitions: list[ElectLeadersTopic] | None = fresh(list)
    timeout_ms: Int32 = 60_000


@struct
class ElectLeadersPartitionResult:
    partition_id: Int32 = 0
    error_code: Int16 = 0
    error_message: ErrorText | None = None


@struct
class ReplicaElectionResult:
    topic: String = ""
    partition_result: list[ElectLeadersPartitionResult] = fresh(list)


@struct
class ElectLeadersResponse(Response):
    api_key, versions = APIS["elect_leaders"]

    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, Since(1)] = 0
    replica_election_results: list[ReplicaElectionResult] = fresh(list)
