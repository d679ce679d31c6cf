"""CreatePartitions (37), 0 to 3: enlarge topics to a number of partitions in all.

2  flexible
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pylogbroker.broker.admin import repeated
from pylogbroker.broker.catalog import Catalog
from pylogbroker.broker.context import RequestContext
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

if TYPE_CHECKING:
    from pylogbroker.broker.broker import Broker


async def handle(broker: Broker, context: RequestContext, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    """Enlarge the topics one after the other, and answer in the order asked, each name once."""
    twice = repeated(topic.name for topic in request.topics)
    results = {}
    for wanted in request.topics:
        if wanted.name not in results:
            named_twice = wanted.name in twice
            results[wanted.name] = await _attempt(broker.catalog, wanted, named_twice, request.validate_only)
    return CreatePartitionsResponse(results=list(results.values()))


async def _attempt(
    catalog: Catalog, wanted: CreatePartitionsTopic, twice: bool, validate_only: bool
) -> CreatePartitionsTopicResult:
    try:
        if twice:
            raise KafkaError(f"Topic {wanted.name!r} is named more than once in the request", ErrorCode.INVALID_REQUEST)
        await _enlarge(catalog, wanted, validate_only)
    except KafkaError as error:
        return CreatePartitionsTopicResult(wanted.name, error.code, error.detail)
    return CreatePartitionsTopicResult(wanted.name)


async def _enlarge(catalog: Catalog, wanted: CreatePartitionsTopic, validate_only: bool) -> None:
    given = None if wanted.assignments is None else [assignment.broker_ids for assignment in wanted.assignments]
    if validate_only:
        catalog.plan_partitions(wanted.name, wanted.count, given)
    else:
        await catalog.add_partitions(wanted.name, wanted.count, given)
