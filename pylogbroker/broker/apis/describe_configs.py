"""DescribeConfigs (32), 0 to 4: the settings of topics and brokers, and where their values come from.

    0  is_default instead of a source
    1  source and synonyms
    3  type and documentation
    4  flexible

A broker's empty name asks for what is set for all brokers together.  This broker has no loggers to change, so
BROKER_LOGGER has no settings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from pylogbroker.broker.config_resources import find_resource
from pylogbroker.broker.context import RequestContext
from pylogbroker.config import Description, Source
from pylogbroker.errors import KafkaError
from pylogbroker.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

if TYPE_CHECKING:
    from pylogbroker.broker.broker import Broker


def handle(broker: Broker, context: RequestContext, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    """Describe each resource on its own."""
    shape = _Shape(context.api_version, request.include_synonyms, request.include_documentation)
    return DescribeConfigsResponse(results=[_attempt(broker, wanted, shape) for wanted in request.resources])


@attrs.frozen
class _Shape:
    """What the answer shows of each setting."""

    version: int
    synonyms: bool
    documentation: bool

    def row(self, entry: Description) -> DescribeConfigsResourceResult:
        """One setting as the answer's version has it."""
        return DescribeConfigsResourceResult(
            name=entry.name,
            value=entry.value,
            read_only=entry.read_only,
            config_source=entry.source,
            is_default=self.version == 0 and entry.source is Source.DEFAULT_CONFIG,
            is_sensitive=entry.sensitive,
            synonyms=self._synonyms(entry),
            config_type=entry.type,
            documentation=entry.documentation if self.documentation else None,
        )

    def _synonyms(self, entry: Description) -> list[DescribeConfigsSynonym]:
        return [DescribeConfigsSynonym(s.name, s.value, s.source) for s in entry.synonyms] if self.synonyms else []


def _attempt(broker: Broker, wanted: DescribeConfigsResource, shape: _Shape) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        error_message=None, resource_type=wanted.resource_type, resource_name=wanted.resource_name
    )
    try:
        entries = find_resource(broker, wanted.resource_type, wanted.resource_name).describe()
    except KafkaError as error:
        result.error_code, result.error_message = error.code, error.detail
    else:
        keys = wanted.configuration_keys
        result.configs = [shape.row(entry) for entry in entries if not keys or entry.name in keys]
    return result
