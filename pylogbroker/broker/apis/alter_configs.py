"""AlterConfigs (33): replace all settings of a topic or broker; remove those not named."""

from __future__ import annotations

from pylogbroker.broker.api import serves
from pylogbroker.broker.config_changes import ConfigAlteration, alter
from pylogbroker.broker.context import RequestContext
from pylogbroker.broker.services import Services
from pylogbroker.config import ConfigOperation
from pylogbroker.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


@serves(AlterConfigsRequest)
async def handle(services: Services, context: RequestContext, request: AlterConfigsRequest) -> AlterConfigsResponse:
    return AlterConfigsResponse(
        responses=await alter(
            services, request.resources, _alteration, AlterConfigsResourceResponse, request.validate_only
        )
    )


def _alteration(resource: AlterConfigsResource) -> ConfigAlteration:
    changes = [(config.name, ConfigOperation.SET, config.value) for config in resource.configs]
    return ConfigAlteration(resource.resource_type, resource.resource_name, changes, keep=False)
