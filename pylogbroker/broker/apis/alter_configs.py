"""AlterConfigs (33): replace all settings of a topic or broker; remove those not named."""

from __future__ import annotations

from pylogbroker.broker.api import serves
from pylogbroker.broker.config_changes import ConfigAlteration, alter
from pylogbroker.broker.context import RequestContext
from pylogbroker.broker.services import Services
from pylogbroker.config import ConfigOperation
from pylogbroker.errors import ErrorCode
from pylogbroker.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


@serves(AlterConfigsRequest)
async def handle(services: Services, context: RequestContext, request: AlterConfigsRequest) -> AlterConfigsResponse:
    errors = await alter(services, [_alteration(resource) for resource in request.resources], request.validate_only)
    return AlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(
                error.code if error else ErrorCode.NONE,
                error.detail if error else None,
                resource.resource_type,
                resource.resource_name,
            )
            for resource, error in zip(request.resources, errors, strict=True)
        ]
    )


def _alteration(resource: AlterConfigsResource) -> ConfigAlteration:
    changes = [(config.name, ConfigOperation.SET, config.value) for config in resource.configs]
    return ConfigAlteration(resource.resource_type, resource.resource_name, changes, keep=False)
