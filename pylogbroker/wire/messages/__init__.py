"""The messages: one module per API, and the table of all of them by API key."""

from typing import Final

from pylogbroker.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from pylogbroker.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from pylogbroker.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from pylogbroker.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from pylogbroker.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from pylogbroker.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from pylogbroker.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from pylogbroker.wire.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from pylogbroker.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from pylogbroker.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from pylogbroker.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from pylogbroker.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from pylogbroker.wire.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from pylogbroker.wire.messages.describe_producers import DescribeProducersRequest, DescribeProducersResponse
from pylogbroker.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from pylogbroker.wire.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from pylogbroker.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from pylogbroker.wire.messages.fetch import FetchRequest, FetchResponse
from pylogbroker.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from pylogbroker.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from pylogbroker.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from pylogbroker.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from pylogbroker.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from pylogbroker.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from pylogbroker.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from pylogbroker.wire.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from pylogbroker.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from pylogbroker.wire.messages.metadata import MetadataRequest, MetadataResponse
from pylogbroker.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from pylogbroker.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from pylogbroker.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from pylogbroker.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from pylogbroker.wire.messages.produce import ProduceRequest, ProduceResponse
from pylogbroker.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from pylogbroker.wire.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from pylogbroker.wire.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from pylogbroker.wire.schema import Request, Response

MESSAGES: Final[tuple[tuple[type[Request], type[Response]], ...]] = (
    (ProduceRequest, ProduceResponse),
    (FetchRequest, FetchResponse),
    (ListOffsetsRequest, ListOffsetsResponse),
    (MetadataRequest, MetadataResponse),
    (OffsetCommitRequest, OffsetCommitResponse),
    (OffsetFetchRequest, OffsetFetchResponse),
    (FindCoordinatorRequest, FindCoordinatorResponse),
    (JoinGroupRequest, JoinGroupResponse),
    (HeartbeatRequest, HeartbeatResponse),
    (LeaveGroupRequest, LeaveGroupResponse),
    (SyncGroupRequest, SyncGroupResponse),
    (DescribeGroupsRequest, DescribeGroupsResponse),
    (ListGroupsRequest, ListGroupsResponse),
    (ApiVersionsRequest, ApiVersionsResponse),
    (CreateTopicsRequest, CreateTopicsResponse),
    (DeleteTopicsRequest, DeleteTopicsResponse),
    (DeleteRecordsRequest, DeleteRecordsResponse),
    (InitProducerIdRequest, InitProducerIdResponse),
    (OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse),
    (AddPartitionsToTxnRequest, AddPartitionsToTxnResponse),
    (AddOffsetsToTxnRequest, AddOffsetsToTxnResponse),
    (EndTxnRequest, EndTxnResponse),
    (WriteTxnMarkersRequest, WriteTxnMarkersResponse),
    (TxnOffsetCommitRequest, TxnOffsetCommitResponse),
    (DescribeConfigsRequest, DescribeConfigsResponse),
    (AlterConfigsRequest, AlterConfigsResponse),
    (DescribeLogDirsRequest, DescribeLogDirsResponse),
    (CreatePartitionsRequest, CreatePartitionsResponse),
    (DeleteGroupsRequest, DeleteGroupsResponse),
    (IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse),
    (OffsetDeleteRequest, OffsetDeleteResponse),
    (DescribeClusterRequest, DescribeClusterResponse),
    (DescribeProducersRequest, DescribeProducersResponse),
    (DescribeTransactionsRequest, DescribeTransactionsResponse),
    (ListTransactionsRequest, ListTransactionsResponse),
    (DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse),
)
