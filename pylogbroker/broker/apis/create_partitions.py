"""CreatePartitions (37): enlarge topics to a number of partitions in all."""

from __future__ import annotations

from pylogbroker.broker.api import serves
from pylogbroker.broker.context import RequestContext
from pylogbroker.broker.limits import PartitionAllowance, duplicate_error, duplicates_in_steps, too_many_partitions
from pylogbroker.broker.security.rules import on_topics
from pylogbroker.broker.services import Controller, Metadata, Services
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)


def _rejected(topic: CreatePartitionsTopic) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(topic.name, ErrorCode.TOPIC_AUTHORIZATION_FAILED, None)


@serves(CreatePartitionsRequest, access=[on_topics(AclOperation.ALTER, _rejected, answers="results")])
async def handle(
    services: Services, context: RequestContext, request: CreatePartitionsRequest
) -> CreatePartitionsResponse:
    controller = services.controller
    twice = await services.runtime.slices.run(duplicates_in_steps(topic.name for topic in request.topics))
    allowance = PartitionAllowance()
    excess = too_many_partitions() if _count_new(services.metadata, request) > allowance.left else None
    results = {}
    async for wanted in services.runtime.slices.over(request.topics):
        if wanted.name not in results:
            known_error = duplicate_error() if wanted.name in twice else excess
            results[wanted.name] = await _attempt(controller, wanted, allowance, known_error, request.validate_only)
    return CreatePartitionsResponse(results=list(results.values()))


def _count_new(metadata: Metadata, request: CreatePartitionsRequest) -> int:
    known = ((wanted.count, metadata.topics.get(wanted.name)) for wanted in request.topics)
    return sum(max(0, count - len(topic.partitions)) for count, topic in known if topic)


async def _attempt(
    controller: Controller,
    wanted: CreatePartitionsTopic,
    allowance: PartitionAllowance,
    known_error: KafkaError | None,
    validate_only: bool,
) -> CreatePartitionsTopicResult:
    try:
        if known_error:
            raise known_error
        await _enlarge(controller, wanted, allowance, validate_only)
    except KafkaError as error:
        return CreatePartitionsTopicResult(wanted.name, error.code, error.detail)
    return CreatePartitionsTopicResult(wanted.name)


async def _enlarge(
    controller: Controller, wanted: CreatePartitionsTopic, allowance: PartitionAllowance, validate_only: bool
) -> None:
    controller.check_is_controller()
    given = None if wanted.assignments is None else [assignment.broker_ids for assignment in wanted.assignments]
    if validate_only:
        controller.plan_partitions(wanted.name, wanted.count, given, allowance)
    else:
        await controller.create_partitions(wanted.name, wanted.count, given, allowance)
