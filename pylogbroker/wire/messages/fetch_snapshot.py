"""FetchSnapshot (key 59): read a snapshot of KRaft's metadata log in chunks (KIP-630).

Versions::

    0  flexible
    1  directory of the replica, addresses of the leader (KIP-853)
"""

from typing import Annotated

from pylogbroker.wire.api_table import APIS
from pylogbroker.wire.schema import (
    IGNORABLE,
    NO_ID,
    Int16,
    Int32,
    Int64,
    RecordsChunk,
    Request,
    Response,
    Since,
    String,
    Tag,
    UInt16,
    Uuid,
    fresh,
    frozen_struct,
    struct,
)


@struct
class SnapshotName:
    """A snapshot has all records below the end offset; the epoch is that of the last one."""

    end_offset: Int64 = 0
    epoch: Int32 = 0


@struct
class SnapshotPartition:
    partition: Int32 = 0
    current_leader_epoch: Int32 = 0
    snapshot_id: SnapshotName = fresh(SnapshotName)
    position: Int64 = 0
    replica_directory_id: Annotated[Uuid, Since(1), Tag(0), IGNORABLE] = NO_ID


@struct
class SnapshotTopic:
    name: String = ""
    partitions: list[SnapshotPartition] = fresh(list)


@struct
class FetchSnapshotRequest(Request):
    api_key, versions = APIS["fetch_snapshot"]

    cluster_id: Annotated[String | None, Tag(0)] = None
    replica_id: Int32 = -1
    max_bytes: Int32 = 0x7FFFFFFF
    topics: list[SnapshotTopic] = fresh(list)


@frozen_struct
class SnapshotLeader:
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0


@struct
class SnapshotChunk:
    index: Int32 = 0
    error_code: Int16 = 0
    snapshot_id: SnapshotName = fresh(SnapshotName)
    current_leader: Annotated[SnapshotLeader, Tag(0)] = SnapshotLeader()
    size: Int64 = 0
    position: Int64 = 0
    unaligned_records: RecordsChunk = b""


@struct
class SnapshotChunks:
    name: String = ""
    partitions: list[SnapshotChunk] = fresh(list)


@struct
class QuorumNodeEndpoint:
    node_id: Int32 = 0
    host: String = ""
    port: UInt16 = 0


@struct
class FetchSnapshotResponse(Response):
    api_key, versions = APIS["fetch_snapshot"]

    throttle_time_ms: Annotated[Int32, IGNORABLE] = 0
    error_code: Int16 = 0
    topics: list[SnapshotChunks] = fresh(list)
    node_endpoints: Annotated[list[QuorumNodeEndpoint], Since(1), Tag(0)] = fresh(list)
