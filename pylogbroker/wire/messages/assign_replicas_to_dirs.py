"""AssignReplicasToDirs (key 73): a broker reports the log directories of its replicas (KIP-858).

Versions::

    0  flexible
"""

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import NO_ID, Int16, Int32, Int64, Request, Response, Uuid, fresh, struct


@struct
class AssignedPartition:
    partition_index: Int32 = 0


@struct
class AssignedDirectoryTopic:
    topic_id: Uuid = NO_ID
    partitions: list[AssignedPartition] = fresh(list)


@struct
class AssignedDirectory:
    id: Uuid = NO_ID
    topics: list[AssignedDirectoryTopic] = fresh(list)


@struct
class AssignReplicasToDirsRequest(Request):
    api_key, versions = APIS["assign_replicas_to_dirs"]

    broker_id: Int32 = 0
    broker_epoch: Int64 = -1
    directories: list[AssignedDirectory] = fresh(list)


@struct
class AssignedPartitionResult:
    partition_index: Int32 = 0
    error_code: Int16 = 0


@struct
class AssignedTopicResult:
    topic_id: Uuid = NO_ID
    partitions: list[AssignedPartitionResult] = fresh(list)


@struct
class AssignedDirectoryResult:
    id: Uuid = NO_ID
    topics: list[AssignedTopicResult] = fresh(list)


@struct
class AssignReplicasToDirsResponse(Response):
    api_key, versions = APIS["assign_replicas_to_dirs"]

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    directories: list[AssignedDirectoryResult] = fresh(list)
