"""DescribeConfigs (32): the settings of topics and brokers, with the sources of their values.

An empty broker name stands for the settings of all brokers.
"""

from __future__ import annotations

from typing import Protocol

import attrs

from pylogbroker.broker.metadata.config_resources import (
    Resource,
    TopicResource,
    config_error,
    find_resource,
    is_allowed,
)
from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.requests.limits import ResponseBudget
from pylogbroker.broker.security.access import Access
from pylogbroker.broker.security.rules import on_each
from pylogbroker.broker.services import HasConfig, HasController, HasMetadata, HasNode, HasTls
from pylogbroker.config import ConfigSource, Description, TopicConfig, describe_topic
from pylogbroker.errors import KafkaError
from pylogbroker.long_loops import over
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)


class _Services(HasConfig, HasMetadata, HasController, HasNode, HasTls, Protocol):
    """Services that this API uses."""


def _may_describe(access: Access, resource: DescribeConfigsResource) -> bool:
    return is_allowed(access, AclOperation.DESCRIBE_CONFIGS, resource.resource_type, resource.resource_name)


def _rejected(resource: DescribeConfigsResource) -> DescribeConfigsResult:
    code = config_error(resource.resource_type)
    return DescribeConfigsResult(code, code.meaning, resource.resource_type, resource.resource_name)


@serves(DescribeConfigsRequest, access=[on_each("resources", "results", _may_describe, _rejected)], is_read=True)
async def handle(
    services: _Services, context: RequestContext, request: DescribeConfigsRequest
) -> DescribeConfigsResponse:
    query = _Query(services, _Shape(context.api_version, request.include_synonyms, request.include_documentation))
    requested = over(_asked(request).items())
    return DescribeConfigsResponse(results=[query.attempt(kind, name, keys) async for (kind, name), keys in requested])


def _asked(request: DescribeConfigsRequest) -> dict[tuple[int, str], set[str]]:
    """Return the requested settings by resource; an empty set stands for all."""
    requested: dict[tuple[int, str], set[str]] = {}
    for resource in request.resources:
        keys = set(resource.configuration_keys or ())
        before = requested.setdefault((resource.resource_type, resource.resource_name), keys)
        if keys and before:
            before |= keys
        else:
            before.clear()
    return requested


@attrs.frozen
class _Shape:
    version: int
    synonyms: bool
    documentation: bool

    def row(self, entry: Description) -> DescribeConfigsResourceResult:
        return DescribeConfigsResourceResult(
            name=entry.name,
            value=entry.value,
            read_only=entry.read_only,
            config_source=entry.source,
            is_default=self.version == 0 and entry.source is ConfigSource.DEFAULT_CONFIG,
            is_sensitive=entry.sensitive,
            synonyms=self._synonyms(entry),
            config_type=entry.type,
            documentation=entry.documentation if self.documentation else None,
        )

    def _synonyms(self, entry: Description) -> list[DescribeConfigsSynonym]:
        return [DescribeConfigsSynonym(s.name, s.value, s.source) for s in entry.synonyms] if self.synonyms else []


@attrs.frozen
class _Rows:
    rows: list[DescribeConfigsResourceResult]
    size: int = attrs.field(init=False)

    @size.default
    def _sum(self) -> int:
        return sum(map(_size, self.rows))


@attrs.define
class _Query:
    """State of one request. Topics with the same settings share their rows."""

    _services: _Services
    _shape: _Shape
    _space: ResponseBudget = attrs.field(factory=ResponseBudget, init=False)
    _of_topics: dict[TopicConfig, _Rows] = attrs.field(factory=dict, init=False)

    def attempt(self, kind: int, name: str, keys: set[str]) -> DescribeConfigsResult:
        result = DescribeConfigsResult(error_message=None, resource_type=kind, resource_name=name)
        try:
            described = self._describe(find_resource(self._services, kind, name))
            if keys:
                described = _Rows([row for row in described.rows if row.name in keys])
            self._space.take(described.size)
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.detail
        else:
            result.configs = described.rows
        return result

    def _describe(self, resource: Resource) -> _Rows:
        if not isinstance(resource, TopicResource):
            return _Rows(list(map(self._shape.row, resource.describe())))
        settings = resource.in_force()
        rows = self._of_topics.get(settings)
        if rows is None:
            entries = describe_topic(self._services.config, settings)
            rows = self._of_topics[settings] = _Rows(list(map(self._shape.row, entries)))
        return rows


def _size(row: DescribeConfigsResourceResult) -> int:
    synonyms = sum(8 + len(synonym.name) + len(synonym.value or "") for synonym in row.synonyms)
    return 16 + len(row.name) + len(row.value or "") + len(row.documentation or "") + synonyms
