"""ElectLeaders (43): elect preferred leaders, or leaders among replicas that are not in sync (KIP-460).

A request for all partitions gets an answer about those that were elected, or could not be.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pylogbroker.broker.membership.control import HasPlacementControl
from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.security.rules import on_cluster
from pylogbroker.controller.requested_elections import ElectionKind
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.long_loops import mapped, over
from pylogbroker.metadata.image import PartitionKey
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.wire.messages.elect_leaders import (
    ElectLeadersPartitionResult,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ReplicaElectionResult,
)

_FIRST_WITH_ERROR = 1
_KEYS_PER_EVENT = 500


async def _reject(context: RequestContext, request: ElectLeadersRequest, code: ErrorCode) -> ElectLeadersResponse:
    results = dict(await mapped(lambda key: (key, code), _keys(request)))
    top_level = code if context.api_version >= _FIRST_WITH_ERROR else ErrorCode.NONE
    return ElectLeadersResponse(error_code=top_level, replica_election_results=await _by_topic(results))


@serves(ElectLeadersRequest, access=[on_cluster(AclOperation.ALTER, _reject)])
async def handle(
    services: HasPlacementControl, context: RequestContext, request: ElectLeadersRequest
) -> ElectLeadersResponse:
    keys = None if request.topic_partitions is None else [key async for key in over(_keys(request))]
    try:
        if request.election_type not in tuple(ElectionKind):
            raise KafkaError(code=ErrorCode.INVALID_REQUEST)
        results = await _elect(services, ElectionKind(request.election_type), keys)
    except KafkaError as error:
        if keys is None:
            return ElectLeadersResponse(error_code=error.code)
        results = dict.fromkeys(keys, error.code)
    if keys is None:
        outcomes = over(results.items())
        results = {key: code async for key, code in outcomes if code is not ErrorCode.ELECTION_NOT_NEEDED}
    return ElectLeadersResponse(replica_election_results=await _by_topic(results))


async def _elect(
    services: HasPlacementControl, kind: ElectionKind, keys: Sequence[PartitionKey] | None
) -> dict[PartitionKey, ErrorCode]:
    """Ask for the elections of long requests in parts, so that the controller handles other events between them."""
    elect = services.cluster_control.elect_leaders
    if keys is None:
        return await elect(kind, None)
    results: dict[PartitionKey, ErrorCode] = {}
    async for start in over(range(0, max(len(keys), 1), _KEYS_PER_EVENT)):
        results |= await elect(kind, keys[start : start + _KEYS_PER_EVENT])
    return results


def _keys(request: ElectLeadersRequest) -> Iterator[PartitionKey]:
    return ((topic.topic, number) for topic in request.topic_partitions or () for number in topic.partitions)


async def _by_topic(results: Mapping[PartitionKey, ErrorCode]) -> list[ReplicaElectionResult]:
    topics: dict[str, list[ElectLeadersPartitionResult]] = {}

    def add(result: tuple[PartitionKey, ErrorCode]) -> None:
        (topic, number), code = result
        message = None if code is ErrorCode.NONE else code.meaning
        topics.setdefault(topic, []).append(ElectLeadersPartitionResult(number, code, message))

    await mapped(add, results.items())
    return await mapped(lambda entry: ReplicaElectionResult(*entry), topics.items())
