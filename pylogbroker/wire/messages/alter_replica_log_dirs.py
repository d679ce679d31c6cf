"""AlterReplicaLogDirs (key 34): move replicas to other log directories of their broker (KIP-113).

Versions::

    0  directories and their partitions
    1  KIP-219 throttling
    2  flexible
"""

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import Int16, Int32, Request, Response, String, fresh, struct


@struct
class AlterReplicaLogDirTopic:
    name: String = ""
    partitions: list[Int32] = fresh(list)


@struct
class AlterReplicaLogDir:
    path: String = ""
    topics: list[AlterReplicaLogDirTopic] = fresh(list)


@struct
class AlterReplicaLogDirsRequest(Request):
    api_key, versions = APIS["alter_replica_log_dirs"]

    dirs: list[AlterReplicaLogDir] = fresh(list)


@struct
class AlterReplicaLogDirPartitionResult:
    partition_index: Int32 = 0
    error_code: Int16 = 0


@struct
class AlterReplicaLogDirTopicResult:
    topic_name: String = ""
    partitions: list[AlterReplicaLogDirPartitionResult] = fresh(list)


@struct
class AlterReplicaLogDirsResponse(Response):
    api_key, versions = APIS["alter_replica_log_dirs"]

    throttle_time_ms: Int32 = 0
    results: list[AlterReplicaLogDirTopicResult] = fresh(list)
