"""AlterConfigs (33): replace all settings of a topic or broker; remove those not named."""

from __future__ import annotations

from typing import Protocol

from pylogbroker.broker.metadata.config_changes import ConfigAlteration, alter, may_alter
from pylogbroker.broker.metadata.config_resources import config_error
from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.security.rules import on_each
from pylogbroker.broker.services import HasConfig, HasController, HasMetadata, HasNode, HasTls
from pylogbroker.config import ConfigOperation
from pylogbroker.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


class _Services(HasConfig, HasMetadata, HasController, HasNode, HasTls, Protocol):
    """Services that this API uses."""


def _rejected(resource: AlterConfigsResource) -> AlterConfigsResourceResponse:
    code = config_error(resource.resource_type)
    return AlterConfigsResourceResponse(code, code.meaning, resource.resource_type, resource.resource_name)


@serves(AlterConfigsRequest, access=[on_each("resources", "responses", may_alter, _rejected)])
async def handle(services: _Services, context: RequestContext, request: AlterConfigsRequest) -> AlterConfigsResponse:
    return AlterConfigsResponse(
        responses=await alter(
            services, request.resources, _alteration, AlterConfigsResourceResponse, request.validate_only
        )
    )


def _alteration(resource: AlterConfigsResource) -> ConfigAlteration:
    changes = [(config.name, ConfigOperation.SET, config.value) for config in resource.configs]
    return ConfigAlteration(resource.resource_type, resource.resource_name, changes, keep=False)
