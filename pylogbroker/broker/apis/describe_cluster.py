"""DescribeCluster (60): the cluster's id, controller and brokers, as the listener's clients reach them (KIP-700)."""

from __future__ import annotations

from typing import Protocol

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.security.rules import by_handler
from pylogbroker.broker.security.visibility import cluster_operations
from pylogbroker.broker.services import HasMetadata, HasNode
from pylogbroker.errors import ErrorCode
from pylogbroker.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from pylogbroker.wire.schema import NOT_ASKED

BROKERS, CONTROLLERS = 1, 2


class _Services(HasMetadata, HasNode, Protocol):
    """Services that this API uses."""


@serves(DescribeClusterRequest, access=[by_handler])
def handle(services: _Services, context: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
    if request.endpoint_type != BROKERS:
        return _wrong_endpoint(request.endpoint_type)
    image = services.metadata.image
    return DescribeClusterResponse(
        cluster_id=services.node.cluster_id,
        controller_id=image.controller_id,
        brokers=[
            DescribeClusterBroker(broker.id, broker.host, broker.port, broker.rack)
            for broker in services.node.live_brokers(image, context)
        ],
        cluster_authorized_operations=(
            cluster_operations(context) if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )


def _wrong_endpoint(kind: int) -> DescribeClusterResponse:
    of_controllers = kind == CONTROLLERS
    return DescribeClusterResponse(
        error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE if of_controllers else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
        error_message=f"This is an endpoint of brokers (type {BROKERS}); the request was for one of type {kind}",
    )
