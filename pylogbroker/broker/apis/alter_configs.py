"""AlterConfigs (33), 0 to 2: replace all settings that a topic or broker has of its own; those not named go.

2  flexible
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pylogbroker.broker.altering import Alteration, alter
from pylogbroker.broker.context import RequestContext
from pylogbroker.config import ConfigOperation
from pylogbroker.errors import ErrorCode
from pylogbroker.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

if TYPE_CHECKING:
    from pylogbroker.broker.broker import Broker


async def handle(broker: Broker, context: RequestContext, request: AlterConfigsRequest) -> AlterConfigsResponse:
    """Change the resources one after the other."""
    refusals = await alter(broker, [_alteration(resource) for resource in request.resources], request.validate_only)
    return AlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(
                refusal.code if refusal else ErrorCode.NONE,
                refusal.detail if refusal else None,
                resource.resource_type,
                resource.resource_name,
            )
            for resource, refusal in zip(request.resources, refusals, strict=True)
        ]
    )


def _alteration(resource: AlterConfigsResource) -> Alteration:
    changes = [(config.name, ConfigOperation.SET, config.value) for config in resource.configs]
    return Alteration(resource.resource_type, resource.resource_name, changes, keep=False)
