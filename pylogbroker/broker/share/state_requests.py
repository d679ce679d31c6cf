"""Parts that the handlers of the share coordinator's APIs share: partitions by topic, an answer for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from twisted.internet.defer import Deferred

from pylogbroker.broker.security.rejections import reject_partitions, reject_topics
from pylogbroker.broker.security.rules import Rule, on_cluster
from pylogbroker.errors import ErrorCode
from pylogbroker.groups.share.state_records import SharePartitionKey
from pylogbroker.long_loops import over
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.wire import Response

R = TypeVar("R")


def of_brokers(
    make_response: Callable[[list[Any]], Response],
    make_topic: Callable[[Any, list[Any]], Any],
    make_partition: Callable[[int, ErrorCode, str], Any],
) -> Rule:
    """Return the rule of access of these APIs: brokers may ask."""
    reject = reject_partitions(
        make_topic,
        lambda partition, code: make_partition(partition.partition, code, code.meaning),
        name="topic_id",
    )
    return on_cluster(AclOperation.CLUSTER_ACTION, reject_topics(make_response, reject))


async def results_by_topic(
    request: Any,
    call: Callable[[SharePartitionKey, Any], Deferred[R | ErrorCode]],
    make_topic: Callable[[Any, list[Any]], Any],
    make_partition: Callable[[int, R | ErrorCode], Any],
) -> list[Any]:
    """Return the answers of all partitions in a request; all calls begin before the first result is awaited."""
    begun: list[tuple[Any, list[tuple[int, Deferred[R | ErrorCode]]]]] = []
    async for topic in over(request.topics):
        calls: list[tuple[int, Deferred[R | ErrorCode]]] = []
        async for partition in over(topic.partitions):
            key = SharePartitionKey(request.group_id, topic.topic_id, partition.partition)
            calls.append((partition.partition, call(key, partition)))
        begun.append((topic.topic_id, calls))
    return [
        make_topic(topic_id, [make_partition(index, await result) async for index, result in over(calls)])
        for topic_id, calls in begun
    ]
