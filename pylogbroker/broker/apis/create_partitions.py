"""CreatePartitions (37): enlarge topics to a number of partitions in all."""

from __future__ import annotations

from typing import Protocol

import attrs

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.requests.limits import PartitionAllowance, attempt_each
from pylogbroker.broker.security.rules import on_topics
from pylogbroker.broker.services import Controller, HasController, HasMetadata, HasQuotas, Metadata, Mutations
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

_FIRST_WITH_QUOTA_ERROR = 3


class _Services(HasMetadata, HasController, HasQuotas, Protocol):
    """Services that this API uses."""


def _rejected(topic: CreatePartitionsTopic) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(topic.name, ErrorCode.TOPIC_AUTHORIZATION_FAILED, None)


@serves(CreatePartitionsRequest, access=[on_topics(AclOperation.ALTER, _rejected, answers="results")])
async def handle(
    services: _Services, context: RequestContext, request: CreatePartitionsRequest
) -> CreatePartitionsResponse:
    controller = services.controller
    mutations = services.quotas.mutations(context, _FIRST_WITH_QUOTA_ERROR)
    enlargement = _Enlargement(controller, mutations, request.validate_only)
    excess = _count_new(services.metadata, request) > enlargement.allowance.left
    results = await attempt_each(request.topics, enlargement.attempt, excess)
    return CreatePartitionsResponse(mutations.throttle_ms if mutations else 0, results)


def _count_new(metadata: Metadata, request: CreatePartitionsRequest) -> int:
    targets = ((topic.count, metadata.topics.get(topic.name)) for topic in request.topics)
    return sum(max(0, count - len(topic.partitions)) for count, topic in targets if topic)


@attrs.define
class _Enlargement:
    """State of one request."""

    _controller: Controller
    _mutations: Mutations | None
    _validate_only: bool
    allowance: PartitionAllowance = attrs.field(factory=PartitionAllowance, init=False)

    async def attempt(
        self, topic: CreatePartitionsTopic, known_error: KafkaError | None
    ) -> CreatePartitionsTopicResult:
        try:
            if known_error:
                raise known_error
            await self._enlarge(topic)
        except KafkaError as error:
            return CreatePartitionsTopicResult(topic.name, error.code, error.detail)
        return CreatePartitionsTopicResult(topic.name)

    async def _enlarge(self, topic: CreatePartitionsTopic) -> None:
        controller, name, count = self._controller, topic.name, topic.count
        controller.check_is_controller()
        given = None if topic.assignments is None else [assignment.broker_ids for assignment in topic.assignments]
        if self._validate_only:
            await controller.plan_partitions(name, count, given, self.allowance)
            return
        if self._mutations is not None:
            self._mutations.take(len((await controller.plan_partitions(name, count, given)).partitions))
        await controller.create_partitions(name, count, given, self.allowance)
