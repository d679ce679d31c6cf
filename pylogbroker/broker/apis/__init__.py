"""Every API that this broker serves, in one table: the request's declaration, and who handles it.

One module holds one API.  A handler is called on the reactor thread as `handle(broker, context, request)`; it returns
the response, an awaitable of it, or None where no answer is to be sent.  When the connection closes before the answer
is there, an API that only reads is cancelled; others finish their work (see `pylogbroker.broker.context`).  The
declaration says the versions: what stands here is advertised by ApiVersions, and what does not is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from pylogbroker.broker.apis import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_configs,
    api_versions,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_topics,
    describe_acls,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_topic_partitions,
    describe_transactions,
    end_txn,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_groups,
    list_offsets,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sync_group,
    txn_offset_commit,
    write_txn_markers,
)
from pylogbroker.wire import SUPPORTED, Request, Response, Versions
from pylogbroker.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from pylogbroker.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from pylogbroker.wire.messages.alter_configs import AlterConfigsRequest
from pylogbroker.wire.messages.api_versions import ApiVersionsRequest
from pylogbroker.wire.messages.create_acls import CreateAclsRequest
from pylogbroker.wire.messages.create_partitions import CreatePartitionsRequest
from pylogbroker.wire.messages.create_topics import CreateTopicsRequest
from pylogbroker.wire.messages.delete_acls import DeleteAclsRequest
from pylogbroker.wire.messages.delete_groups import DeleteGroupsRequest
from pylogbroker.wire.messages.delete_records import DeleteRecordsRequest
from pylogbroker.wire.messages.delete_topics import DeleteTopicsRequest
from pylogbroker.wire.messages.describe_acls import DescribeAclsRequest
from pylogbroker.wire.messages.describe_cluster import DescribeClusterRequest
from pylogbroker.wire.messages.describe_configs import DescribeConfigsRequest
from pylogbroker.wire.messages.describe_groups import DescribeGroupsRequest
from pylogbroker.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from pylogbroker.wire.messages.describe_producers import DescribeProducersRequest
from pylogbroker.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from pylogbroker.wire.messages.describe_transactions import DescribeTransactionsRequest
from pylogbroker.wire.messages.end_txn import EndTxnRequest
from pylogbroker.wire.messages.fetch import FetchRequest
from pylogbroker.wire.messages.find_coordinator import FindCoordinatorRequest
from pylogbroker.wire.messages.heartbeat import HeartbeatRequest
from pylogbroker.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from pylogbroker.wire.messages.init_producer_id import InitProducerIdRequest
from pylogbroker.wire.messages.join_group import JoinGroupRequest
from pylogbroker.wire.messages.leave_group import LeaveGroupRequest
from pylogbroker.wire.messages.list_groups import ListGroupsRequest
from pylogbroker.wire.messages.list_offsets import ListOffsetsRequest
from pylogbroker.wire.messages.list_transactions import ListTransactionsRequest
from pylogbroker.wire.messages.metadata import MetadataRequest
from pylogbroker.wire.messages.offset_commit import OffsetCommitRequest
from pylogbroker.wire.messages.offset_delete import OffsetDeleteRequest
from pylogbroker.wire.messages.offset_fetch import OffsetFetchRequest
from pylogbroker.wire.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from pylogbroker.wire.messages.produce import ProduceRequest
from pylogbroker.wire.messages.sync_group import SyncGroupRequest
from pylogbroker.wire.messages.txn_offset_commit import TxnOffsetCommitRequest
from pylogbroker.wire.messages.write_txn_markers import WriteTxnMarkersRequest


@attrs.frozen
class Api:
    """One row of the table."""

    request: type[Request]
    handle: Callable[..., Any]
    is_read: bool = False
    """Whether the API changes nothing, so that its work stops when the caller has gone."""

    @property
    def key(self) -> int:
        """The number of the API."""
        return self.request.api_key

    @property
    def response(self) -> type[Response]:
        """What it is answered with."""
        return SUPPORTED[self.key][1]

    @property
    def versions(self) -> Versions:
        """The versions that are served."""
        return self.request.versions

    @property
    def name(self) -> str:
        """The name of the API, as Kafka's protocol guide has it."""
        return self.request.__name__.removesuffix("Request")


APIS = (
    Api(ProduceRequest, produce.handle),
    Api(FetchRequest, fetch.handle, is_read=True),
    Api(ListOffsetsRequest, list_offsets.handle, is_read=True),
    Api(MetadataRequest, metadata.handle, is_read=True),
    Api(OffsetCommitRequest, offset_commit.handle),
    Api(OffsetFetchRequest, offset_fetch.handle),
    Api(FindCoordinatorRequest, find_coordinator.handle),
    Api(JoinGroupRequest, join_group.handle),
    Api(HeartbeatRequest, heartbeat.handle),
    Api(LeaveGroupRequest, leave_group.handle),
    Api(SyncGroupRequest, sync_group.handle),
    Api(DescribeGroupsRequest, describe_groups.handle),
    Api(ListGroupsRequest, list_groups.handle),
    Api(ApiVersionsRequest, api_versions.handle),
    Api(CreateTopicsRequest, create_topics.handle),
    Api(DeleteTopicsRequest, delete_topics.handle),
    Api(DeleteRecordsRequest, delete_records.handle),
    Api(InitProducerIdRequest, init_producer_id.handle),
    Api(OffsetForLeaderEpochRequest, offset_for_leader_epoch.handle, is_read=True),
    Api(AddPartitionsToTxnRequest, add_partitions_to_txn.handle),
    Api(AddOffsetsToTxnRequest, add_offsets_to_txn.handle),
    Api(EndTxnRequest, end_txn.handle),
    Api(WriteTxnMarkersRequest, write_txn_markers.handle),
    Api(TxnOffsetCommitRequest, txn_offset_commit.handle),
    Api(DescribeAclsRequest, describe_acls.handle),
    Api(CreateAclsRequest, create_acls.handle),
    Api(DeleteAclsRequest, delete_acls.handle),
    Api(DescribeConfigsRequest, describe_configs.handle, is_read=True),
    Api(AlterConfigsRequest, alter_configs.handle),
    Api(DescribeLogDirsRequest, describe_log_dirs.handle, is_read=True),
    Api(CreatePartitionsRequest, create_partitions.handle),
    Api(DeleteGroupsRequest, delete_groups.handle),
    Api(IncrementalAlterConfigsRequest, incremental_alter_configs.handle),
    Api(OffsetDeleteRequest, offset_delete.handle),
    Api(DescribeClusterRequest, describe_cluster.handle),
    Api(DescribeProducersRequest, describe_producers.handle, is_read=True),
    Api(DescribeTransactionsRequest, describe_transactions.handle),
    Api(ListTransactionsRequest, list_transactions.handle),
    Api(DescribeTopicPartitionsRequest, describe_topic_partitions.handle),
)
