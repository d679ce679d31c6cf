"""DescribeCluster (60): the cluster's id, controller and brokers, as the listener's clients reach them (KIP-700).

Members of a cluster of KRaft controllers name fenced brokers, too (KIP-1073).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.security.rules import by_handler
from pylogbroker.broker.security.visibility import cluster_operations
from pylogbroker.broker.services import HasKraft, HasMetadata, HasNode
from pylogbroker.errors import ErrorCode
from pylogbroker.metadata.image import ClusterImage
from pylogbroker.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from pylogbroker.wire.schema import NOT_ASKED

BROKERS, CONTROLLERS = 1, 2
_NO_EPOCH: Final = -1


class _Services(HasMetadata, HasNode, HasKraft, Protocol):
    """Services that this API uses."""


@serves(DescribeClusterRequest, access=[by_handler])
def handle(services: _Services, context: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
    if request.endpoint_type != BROKERS:
        return _wrong_endpoint(request.endpoint_type)
    image = services.metadata.image
    brokers = [
        DescribeClusterBroker(broker.id, broker.host, broker.port, broker.rack, epoch=_epoch(image, broker.id))
        for broker in services.node.live_brokers(image, context)
    ]
    if request.include_fenced_brokers:
        live = {broker.broker_id for broker in brokers}
        brokers += [broker for broker in _fenced(services, context) if broker.broker_id not in live]
    if not request.with_epochs:
        for broker in brokers:
            broker.epoch = _NO_EPOCH
    return DescribeClusterResponse(
        cluster_id=services.node.cluster_id,
        controller_id=image.controller_id,
        brokers=brokers,
        cluster_authorized_operations=(
            cluster_operations(context) if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )


def _epoch(image: ClusterImage, broker_id: int) -> int:
    broker = image.brokers.get(broker_id)
    return _NO_EPOCH if broker is None else broker.epoch


def _fenced(services: _Services, context: RequestContext) -> Iterator[DescribeClusterBroker]:
    """Yield the fenced brokers that have the request's listener."""
    for broker in () if services.kraft is None else services.kraft.fenced_brokers():
        listener = broker.listeners.get(context.listener)
        if listener is not None:
            yield DescribeClusterBroker(broker.id, listener.host, listener.port, broker.rack, True, broker.epoch)


def _wrong_endpoint(kind: int) -> DescribeClusterResponse:
    of_controllers = kind == CONTROLLERS
    return DescribeClusterResponse(
        error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE if of_controllers else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
        error_message=f"This is an endpoint of brokers (type {BROKERS}); the request was for one of type {kind}",
    )
