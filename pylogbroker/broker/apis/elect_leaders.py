"""ElectLeaders (43): elect preferred leaders, or leaders among replicas that are not in sync (KIP-460).

A request for all partitions gets an answer about those that were elected, or could not be.
"""

from __future__ import annotations

from collections.abc import Mapping

from pylogbroker.broker.api import serves
from pylogbroker.broker.context import RequestContext
from pylogbroker.broker.membership.control import ClusterServices
from pylogbroker.broker.security.rules import on_cluster
from pylogbroker.controller.requested_elections import ElectionKind
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.metadata.image import PartitionKey
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.wire.messages.elect_leaders import (
    ElectLeadersPartitionResult,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ReplicaElectionResult,
)

_FIRST_WITH_ERROR = 1


def _reject(context: RequestContext, request: ElectLeadersRequest, code: ErrorCode) -> ElectLeadersResponse:
    results = dict.fromkeys(_keys(request) or (), code)
    top_level = code if context.api_version >= _FIRST_WITH_ERROR else ErrorCode.NONE
    return ElectLeadersResponse(error_code=top_level, replica_election_results=_by_topic(results))


@serves(ElectLeadersRequest, access=[on_cluster(AclOperation.ALTER, _reject)], cluster_only=True)
async def handle(
    services: ClusterServices, context: RequestContext, request: ElectLeadersRequest
) -> ElectLeadersResponse:
    keys = _keys(request)
    try:
        if request.election_type not in tuple(ElectionKind):
            raise KafkaError(code=ErrorCode.INVALID_REQUEST)
        kind = ElectionKind(request.election_type)
        results = await services.cluster_control.elect_leaders(kind, keys)
    except KafkaError as error:
        if keys is None:
            return ElectLeadersResponse(error_code=error.code)
        results = dict.fromkeys(keys, error.code)
    if keys is None:
        results = {key: code for key, code in results.items() if code is not ErrorCode.ELECTION_NOT_NEEDED}
    return ElectLeadersResponse(replica_election_results=_by_topic(results))


def _keys(request: ElectLeadersRequest) -> list[PartitionKey] | None:
    if request.topic_partitions is None:
        return None
    return [(topic.topic, number) for topic in request.topic_partitions for number in topic.partitions]


def _by_topic(results: Mapping[PartitionKey, ErrorCode]) -> list[ReplicaElectionResult]:
    topics: dict[str, list[ElectLeadersPartitionResult]] = {}
    for (topic, number), code in results.items():
        message = None if code is ErrorCode.NONE else code.meaning
        topics.setdefault(topic, []).append(ElectLeadersPartitionResult(number, code, message))
    return [ReplicaElectionResult(topic, partitions) for topic, partitions in topics.items()]
