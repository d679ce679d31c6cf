"""DescribeCluster (60): the cluster's id, its controller and its brokers (KIP-700)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pylogbroker.broker.acl_operations import CLUSTER_OPERATIONS, NOT_ASKED
from pylogbroker.broker.api import serves
from pylogbroker.broker.context import RequestContext
from pylogbroker.errors import ErrorCode
from pylogbroker.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

if TYPE_CHECKING:
    from pylogbroker.broker.broker import Broker

BROKERS, CONTROLLERS = 1, 2


@serves(DescribeClusterRequest)
def handle(broker: Broker, context: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
    """Describe the brokers as the listener's clients reach them."""
    if request.endpoint_type != BROKERS:
        return _wrong_endpoint(request.endpoint_type)
    host, port = broker.address(context)
    return DescribeClusterResponse(
        cluster_id=broker.cluster_id,
        controller_id=broker.node_id,
        brokers=[DescribeClusterBroker(broker.node_id, host, port, broker.rack)],
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )


def _wrong_endpoint(asked: int) -> DescribeClusterResponse:
    known = asked == CONTROLLERS
    return DescribeClusterResponse(
        error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE if known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
        error_message=f"This is an endpoint of brokers (type {BROKERS}); the request was for one of type {asked}",
    )
