"""ListConfigResources (74): name what has settings, by type (KIP-1142).

Only a cluster of KRaft controllers has subscriptions to metrics of clients. Version 0 is about them alone.
"""

from __future__ import annotations

from typing import Final, Protocol

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.requests.limits import within_budget
from pylogbroker.broker.security.rules import on_cluster
from pylogbroker.broker.services import HasMetadata, HasNode
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.metadata.image import ConfigResourceType
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

_FIRST_WITH_TYPES: Final = 1
_TOPIC, _BROKER, _BROKER_LOGGER, _CLIENT_METRICS, _GROUP = 2, 4, 8, 16, 32
_TYPES: Final = frozenset((_TOPIC, _BROKER, _BROKER_LOGGER, _CLIENT_METRICS, _GROUP))
_LISTED_BY_SETTINGS: Final = {
    _GROUP: ConfigResourceType.GROUPS,
    _CLIENT_METRICS: ConfigResourceType.CLIENT_METRICS,
}
"""They exist as long as they have settings."""
_RESOURCE_BYTES: Final = 8  # besides the name


class _Services(HasMetadata, HasNode, Protocol):
    """Services that this API uses."""


@serves(ListConfigResourcesRequest, access=[on_cluster(AclOperation.DESCRIBE_CONFIGS)], is_read=True)
async def handle(
    services: _Services, context: RequestContext, request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    types = _TYPES if context.api_version >= _FIRST_WITH_TYPES else {_CLIENT_METRICS}
    if request.resource_types:
        types = set(request.resource_types)
    if not types <= _TYPES:
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    image = services.metadata.image
    names = [(name, _TOPIC) for name in image.topics] if _TOPIC in types else []
    brokers = {str(broker) for broker in (*image.brokers, services.node.id)}
    names += [(broker, kind) for kind in (_BROKER, _BROKER_LOGGER) if kind in types for broker in sorted(brokers)]
    for kind, listed in _LISTED_BY_SETTINGS.items():
        if kind in types:
            resources = (resource for resource in image.configs if resource.type is listed)
            names += [(resource.name, kind) for resource in resources if image.configs[resource]]
    try:
        listed_resources = [ConfigResource(name, kind) async for name, kind in within_budget(names, _size)]
    except KafkaError as error:
        return ListConfigResourcesResponse(error_code=error.code)
    return ListConfigResourcesResponse(config_resources=listed_resources)


def _size(resource: tuple[str, int]) -> int:
    return _RESOURCE_BYTES + len(resource[0])
