"""DescribeProducers (61): a partition's producers and their open transactions (KIP-664).

Operators find transactions with it that hold back readers of committed records.
"""

from __future__ import annotations

from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.requests.limits import ResponseBudget, distinct_partitions
from pylogbroker.broker.security.rejections import reject_partitions
from pylogbroker.broker.security.rules import on_topics
from pylogbroker.broker.services import HasPartitions
from pylogbroker.errors import KafkaError
from pylogbroker.long_loops import over
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.storage import ProducerStateEntry
from pylogbroker.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

_PRODUCER_BYTES = 40  # in an answer


_reject_topic = reject_partitions(
    TopicResponse, lambda index, code: PartitionResponse(index, code, code.meaning), "partition_indexes"
)


@serves(DescribeProducersRequest, access=[on_topics(AclOperation.READ, _reject_topic)], is_read=True)
async def handle(
    services: HasPartitions, context: RequestContext, request: DescribeProducersRequest
) -> DescribeProducersResponse:
    space = ResponseBudget()
    requested = distinct_partitions((topic.name, topic.partition_indexes) for topic in request.topics)
    topics = []
    async for topic, indexes in over(requested.items()):
        partitions = [_partition(services, topic, index, space) async for index in over(indexes)]
        topics.append(TopicResponse(topic, partitions))
    return DescribeProducersResponse(topics=topics)


def _partition(services: HasPartitions, topic: str, index: int, space: ResponseBudget) -> PartitionResponse:
    try:
        producers = list(services.partitions.find(topic, index).log.producers)
        space.take(_PRODUCER_BYTES * len(producers))
    except KafkaError as error:
        return PartitionResponse(index, error.code, error.detail)
    return PartitionResponse(index, active_producers=[_producer(state) for state in producers])


def _producer(state: ProducerStateEntry) -> ProducerState:
    return ProducerState(
        producer_id=state.producer_id,
        producer_epoch=state.epoch,
        last_sequence=state.batches[-1].last_sequence if state.batches else -1,
        last_timestamp=state.last_timestamp,
        coordinator_epoch=state.coordinator_epoch,
        current_txn_start_offset=state.transaction_start,
    )
