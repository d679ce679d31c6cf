"""Administrators' requests to a model of a controller: topics, settings, ACLs, reassignments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from pylogbroker.errors import ErrorCode
from pylogbroker.wire import Response
from pylogbroker.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopic,
    ReassignableTopicResponse,
)
from pylogbroker.wire.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from pylogbroker.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from pylogbroker.wire.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from pylogbroker.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from pylogbroker.wire.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from pylogbroker.wire.metadata_records import (
    AccessControlEntryRecord,
    ConfigRecord,
    RemoveAccessControlEntryRecord,
)
from tests.kraft.model_replicas import key_of

if TYPE_CHECKING:
    from tests.kraft.model_controller import ModelController

REQUESTS: Final = (
    CreateTopicsRequest,
    DeleteTopicsRequest,
    IncrementalAlterConfigsRequest,
    CreateAclsRequest,
    DeleteAclsRequest,
    AlterPartitionReassignmentsRequest,
)
_DELETE: Final = 1


def answer(controller: ModelController, request: Any) -> Response:
    """Carry a request out, and return its answer."""
    match request:
        case CreateTopicsRequest():
            created = [_create(controller, topic) for topic in request.topics]
            controller.after_change()
            return CreateTopicsResponse(topics=created)
        case DeleteTopicsRequest():
            named = [DeleteTopicState(name) for name in request.topic_names]
            return DeleteTopicsResponse(responses=[_delete(controller, topic) for topic in [*request.topics, *named]])
        case IncrementalAlterConfigsRequest():
            return _configure(controller, request)
        case CreateAclsRequest():
            return _create_acls(controller, request)
        case DeleteAclsRequest():
            return DeleteAclsResponse(filter_results=[_delete_acls(controller, one) for one in request.filters])
        case AlterPartitionReassignmentsRequest():
            results = [_reassign(controller, topic) for topic in request.topics]
            return AlterPartitionReassignmentsResponse(responses=results)
    raise AssertionError(f"the model has no answer to {request!r}")


def _create(controller: ModelController, topic: CreatableTopic) -> CreatableTopicResult:
    if topic.name in controller.topics:
        return CreatableTopicResult(topic.name, error_code=ErrorCode.TOPIC_ALREADY_EXISTS, error_message="exists")
    live = [broker for broker in sorted(controller.members) if controller.state.is_live(broker)]
    assignment = {given.partition_index: given.broker_ids for given in topic.assignments}
    if not assignment:
        factor = max(1, topic.replication_factor)
        if factor > len(live):
            return CreatableTopicResult(topic.name, error_code=ErrorCode.INVALID_REPLICATION_FACTOR, error_message="")
        assignment = {
            number: [live[(number + place) % len(live)] for place in range(factor)]
            for number in range(max(1, topic.num_partitions))
        }
    configs = {config.name: config.value or "" for config in topic.configs}
    return CreatableTopicResult(topic.name, controller.create_topic(topic.name, assignment, configs))


def _delete(controller: ModelController, topic: DeleteTopicState) -> DeletableTopicResult:
    name = topic.name or controller.state.names.get(topic.topic_id, "")
    topic_id = controller.topics.get(name)
    if topic_id is None:
        return DeletableTopicResult(name, topic.topic_id, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    controller.delete_topic(name)
    return DeletableTopicResult(name, topic_id)


def _configure(controller: ModelController, request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
    answers = []
    for resource in request.resources:
        kind, name = resource.resource_type, resource.resource_name
        records = [
            ConfigRecord(kind, name, config.name, None if config.config_operation == _DELETE else config.value)
            for config in resource.configs
        ]
        controller.append(*records)
        controller.after_change()
        answers.append(AlterConfigsResourceResponse(0, None, kind, name))
    return IncrementalAlterConfigsResponse(responses=answers)


def _create_acls(controller: ModelController, request: CreateAclsRequest) -> CreateAclsResponse:
    for number, creation in enumerate(request.creations):
        controller.append(
            AccessControlEntryRecord(
                UUID(int=(controller.log.end << 8) + number),
                creation.resource_type,
                creation.resource_name,
                creation.resource_pattern_type,
                creation.principal,
                creation.host,
                creation.operation,
                creation.permission_type,
            )
        )
    return CreateAclsResponse(results=[AclCreationResult() for _ in request.creations])


def _delete_acls(controller: ModelController, wanted: DeleteAclsFilter) -> DeleteAclsFilterResult:
    """Delete the ACLs of a principal, the only filter that the model knows."""
    matching = [acl for acl in controller.state.acls.values() if acl.principal == wanted.principal_filter]
    controller.append(*(RemoveAccessControlEntryRecord(acl.id) for acl in matching))
    return DeleteAclsFilterResult(
        matching_acls=[
            DeleteAclsMatchingAcl(
                0,
                None,
                acl.resource_type,
                acl.resource_name,
                acl.pattern_type,
                acl.principal,
                acl.host,
                acl.operation,
                acl.permission_type,
            )
            for acl in matching
        ]
    )


def _reassign(controller: ModelController, topic: ReassignableTopic) -> ReassignableTopicResponse:
    results = []
    for part in topic.partitions:
        key = key_of(controller.state, topic.name, part.partition_index)
        decision = controller.replicas.reassign(key, part.replicas)
        if not isinstance(decision, ErrorCode):
            controller.append(*decision)
        code = decision if isinstance(decision, ErrorCode) else ErrorCode.NONE
        results.append(ReassignablePartitionResponse(part.partition_index, code))
    return ReassignableTopicResponse(topic.name, results)
