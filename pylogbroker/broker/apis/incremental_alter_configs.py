"""IncrementalAlterConfigs (44): change some settings of a topic or broker; keep the others (KIP-339).

Operations: 0 sets a value, 1 restores the default, 2 appends to a list, 3 takes from a list.
"""

from __future__ import annotations

from typing import Protocol

from pylogbroker.broker.metadata.config_changes import ConfigAlteration, alter, may_alter
from pylogbroker.broker.metadata.config_resources import config_error
from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.security.rules import on_each
from pylogbroker.broker.services import HasConfig, HasController, HasMetadata, HasNode, HasTls
from pylogbroker.wire.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


class _Services(HasConfig, HasMetadata, HasController, HasNode, HasTls, Protocol):
    """Services that this API uses."""


def _rejected(resource: AlterConfigsResource) -> AlterConfigsResourceResponse:
    code = config_error(resource.resource_type)
    return AlterConfigsResourceResponse(code, code.meaning, resource.resource_type, resource.resource_name)


@serves(IncrementalAlterConfigsRequest, access=[on_each("resources", "responses", may_alter, _rejected)])
async def handle(
    services: _Services, context: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        responses=await alter(
            services, request.resources, _alteration, AlterConfigsResourceResponse, request.validate_only
        )
    )


def _alteration(resource: AlterConfigsResource) -> ConfigAlteration:
    changes = [(config.name, config.config_operation, config.value) for config in resource.configs]
    return ConfigAlteration(resource.resource_type, resource.resource_name, changes, keep=True)
