"""CreateTopics (19): create topics; a failure does not stop the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Protocol

import attrs

from pylogbroker.broker.metadata.config_changes import check_number_of_settings
from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.requests.limits import PartitionAllowance, attempt_each, duplicates
from pylogbroker.broker.security.access import Access
from pylogbroker.broker.security.rules import Decision, Later, narrow_each
from pylogbroker.broker.security.visibility import may_create_topic
from pylogbroker.broker.services import HasConfig, HasController, HasQuotas, Mutations
from pylogbroker.config import TopicConfig, describe_topic
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.metadata.delta import NewTopic
from pylogbroker.metadata.image import TopicImage
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from pylogbroker.wire.schema import NO_ID

_FIRST_WITH_QUOTA_ERROR = 6


class _Services(HasConfig, HasController, HasQuotas, Protocol):
    """Services that this API uses."""


def _narrow(services: _Services, context: RequestContext, request: CreateTopicsRequest) -> Later[Decision]:
    """Reject topics that the client may not create. Those that are named twice are no topics to check."""
    access = context.required_access
    times = Counter(topic.name for topic in request.topics)

    def may_create(topic: CreatableTopic) -> bool:
        return times[topic.name] > 1 or may_create_topic(access, topic.name)

    return narrow_each(request, "topics", "topics", may_create, _rejected)


def _rejected(topic: CreatableTopic) -> CreatableTopicResult:
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return CreatableTopicResult(name=topic.name, error_code=code, error_message=code.meaning)


@serves(CreateTopicsRequest, access=[_narrow])
async def handle(services: _Services, context: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
    mutations = services.quotas.mutations(context, _FIRST_WITH_QUOTA_ERROR)
    creation = _Creation(services, context.access, request.validate_only, mutations)
    excess = _count_partitions(services, request) > creation.allowance.left
    results = await attempt_each(request.topics, creation.attempt, excess)
    return CreateTopicsResponse(mutations.throttle_ms if mutations else 0, results)


def _count_partitions(services: _Services, request: CreateTopicsRequest) -> int:
    default = services.config.num_partitions
    return sum(
        len(topic.assignments) or (default if topic.num_partitions == -1 else max(0, topic.num_partitions))
        for topic in request.topics
    )


@attrs.define
class _Creation:
    """State of one request. Topics with the same settings share their rows."""

    _services: _Services
    _access: Access | None
    _validate_only: bool
    _mutations: Mutations | None
    allowance: PartitionAllowance = attrs.field(factory=PartitionAllowance, init=False)
    _described: dict[TopicConfig, list[CreatableTopicConfigs]] = attrs.field(factory=dict, init=False)

    async def attempt(self, requested: CreatableTopic, known_error: KafkaError | None) -> CreatableTopicResult:
        try:
            if known_error:
                raise known_error
            settings = _settings(requested)
            topic = await self._create(requested, settings)
        except KafkaError as error:
            return CreatableTopicResult(name=requested.name, error_code=error.code, error_message=error.detail)
        topic_id = NO_ID if self._validate_only else topic.id
        if self._access is not None and not self._access.allows_on_topic(AclOperation.DESCRIBE_CONFIGS, topic.name):
            hidden = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return CreatableTopicResult(topic.name, topic_id, error_message=None, topic_config_error_code=hidden)
        return CreatableTopicResult(
            name=topic.name,
            topic_id=topic_id,
            error_message=None,
            num_partitions=len(topic.partitions),
            replication_factor=topic.replication_factor,
            configs=self._configs(settings),
        )

    async def _create(self, requested: CreatableTopic, settings: Mapping[str, str]) -> TopicImage:
        controller = self._services.controller
        controller.check_is_controller()
        topic = NewTopic(
            requested.name, requested.num_partitions, requested.replication_factor, _assignment(requested), settings
        )
        if self._validate_only:
            return (await controller.plan_topic(topic, self.allowance)).topic
        if self._mutations is not None:
            self._mutations.take(len((await controller.plan_topic(topic)).topic.partitions))
        return await controller.create_topic(topic, self.allowance)

    def _configs(self, own: Mapping[str, str]) -> list[CreatableTopicConfigs]:
        config = self._services.config
        settings = config.topic(own)
        configs = self._described.get(settings)
        if configs is None:
            configs = self._described[settings] = [
                CreatableTopicConfigs(entry.name, entry.value, entry.read_only, entry.source, entry.sensitive)
                for entry in describe_topic(config, settings)
            ]
        return configs


def _assignment(topic: CreatableTopic) -> dict[int, list[int]] | None:
    numbers = duplicates(assignment.partition_index for assignment in topic.assignments)
    if numbers:
        raise KafkaError(
            f"Partitions {sorted(numbers)} are assigned more than once", ErrorCode.INVALID_REPLICA_ASSIGNMENT
        )
    return {assignment.partition_index: assignment.broker_ids for assignment in topic.assignments} or None


def _settings(topic: CreatableTopic) -> dict[str, str]:
    """Return the requested settings; the last duplicate counts, as in Kafka."""
    check_number_of_settings(len(topic.configs))
    valueless = [config.name for config in topic.configs if config.value is None]
    if valueless:
        raise KafkaError(
            f"Settings {valueless} have no value; leave them out for their defaults", ErrorCode.INVALID_CONFIG
        )
    return {config.name: config.value for config in topic.configs if config.value is not None}
