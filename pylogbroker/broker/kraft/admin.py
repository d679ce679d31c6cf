"""Changes of the metadata that this broker asks the active controller for: internal topics, settings, producer ids.

Clients' own requests are passed on as they are (`forwarding`). After each change, this broker reads the metadata log up
to what is committed then: the image has the change, and perhaps later ones that others have made.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import attrs

from pylogbroker.broker.kraft.published_offset import WAIT_SECONDS, PublishedOffset
from pylogbroker.broker.kraft.quorum import Quorum
from pylogbroker.broker.kraft.quorum_state import described_quorum, end_of, partition_of
from pylogbroker.broker.metadata.cluster_metadata import ClusterMetadata
from pylogbroker.broker.metadata.plans import MetadataPlans
from pylogbroker.broker.requests.limits import PartitionAllowance
from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.config import BrokerConfig
from pylogbroker.errors import ErrorCode, KafkaError, PylogbrokerError
from pylogbroker.metadata.delta import NewTopic, PartitionsChanged, PlannedTopic
from pylogbroker.metadata.image import (
    DEFAULT_BROKER,
    ConfigChange,
    ConfigResource,
    ConfigResourceType,
    TopicImage,
)
from pylogbroker.metadata.zk_schema import ProducerIdBlock
from pylogbroker.rpc.backoff import Backoff
from pylogbroker.rpc.errors import ClientError, raise_for
from pylogbroker.rpc.retries import Pauses, retrying
from pylogbroker.wire import Request, WireError
from pylogbroker.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from pylogbroker.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from pylogbroker.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from pylogbroker.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from pylogbroker.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

_LATE: Final = "the change is made, but this broker has not seen it yet"
_PURPOSE: Final = "requests"
_RESOURCE_NUMBERS: Final[Mapping[ConfigResourceType, int]] = {
    ConfigResourceType.TOPICS: 2,
    ConfigResourceType.BROKERS: 4,
    ConfigResourceType.GROUPS: 32,
}
_SET, _DELETE = 0, 1
_OTHER_LEADS: Final = frozenset({ErrorCode.NOT_CONTROLLER, ErrorCode.NOT_LEADER_OR_FOLLOWER})
_BACKOFF: Final = Backoff(0.05, 1.0)


@attrs.define(eq=False, repr=False)
class KraftAdmin:
    """Implements `Controller` of the handlers' services."""

    _broker_id: int
    _config: BrokerConfig
    _metadata: ClusterMetadata
    plans: MetadataPlans
    _runtime: Runtime
    _quorum: Quorum
    _broker_epoch: Callable[[], int]
    _published: PublishedOffset
    _pauses: Pauses = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._pauses = Pauses(self._runtime.clock)

    def close(self) -> None:
        self._pauses.close()

    def check_is_controller(self) -> None:
        """Do nothing: any broker takes changes, and passes them on."""

    async def plan_topic(self, new: NewTopic, allowance: PartitionAllowance | None = None) -> PlannedTopic:
        return self.plans.plan_topic(new, allowance)

    async def plan_partitions(
        self,
        name: str,
        count: int,
        assignments: Sequence[Sequence[int]] | None = None,
        allowance: PartitionAllowance | None = None,
    ) -> PartitionsChanged:
        return self.plans.plan_partitions(name, count, assignments, allowance)

    async def plan_config(self, resource: ConfigResource, change: ConfigChange) -> dict[str, str]:
        return self.plans.plan_stored_config(resource, self._metadata.image.settings(resource), change)

    async def create_topic(self, new_topic: NewTopic, allowance: PartitionAllowance | None = None) -> TopicImage:
        planned = self.plans.plan_topic(new_topic, allowance)
        assignments = [
            CreatableReplicaAssignment(number, list(replicas))
            for number, replicas in (new_topic.assignment or {}).items()
        ]
        partitions = len(planned.topic.partitions)
        topic = CreatableTopic(
            new_topic.name,
            -1 if assignments else partitions,
            -1 if assignments else planned.topic.replication_factor,
            assignments,
            [CreatableTopicConfig(name, value) for name, value in planned.settings.items()],
        )
        answer = await self._ask(CreateTopicsRequest([topic], int(WAIT_SECONDS * 1000)))
        raise_for(answer.topics[0].error_code, answer.topics[0].error_message)
        await self._read_changes()
        return self._metadata.require_topic(new_topic.name)

    async def create_partitions(
        self,
        name: str,
        count: int,
        assignments: Sequence[Sequence[int]] | None = None,
        allowance: PartitionAllowance | None = None,
    ) -> TopicImage:
        self.plans.plan_partitions(name, count, assignments, allowance)
        given = None if assignments is None else [CreatePartitionsAssignment(list(brokers)) for brokers in assignments]
        request = CreatePartitionsRequest([CreatePartitionsTopic(name, count, given)], int(WAIT_SECONDS * 1000))
        answer = await self._ask(request)
        raise_for(answer.results[0].error_code, answer.results[0].error_message)
        await self._read_changes()
        return self._metadata.require_topic(name)

    async def alter_config(self, resource: ConfigResource, change: ConfigChange) -> None:
        before = dict(self._metadata.image.settings(resource))
        after = self.plans.plan_stored_config(resource, before, change)
        changed = [AlterableConfig(name, _SET, text) for name, text in after.items() if before.get(name) != text]
        changed += [AlterableConfig(name, _DELETE, None) for name in before if name not in after]
        if not changed:
            return
        name = "" if resource.name == DEFAULT_BROKER else resource.name
        altered = AlterConfigsResource(_RESOURCE_NUMBERS[resource.type], name, changed)
        answer = await self._ask(IncrementalAlterConfigsRequest([altered]))
        raise_for(answer.responses[0].error_code, answer.responses[0].error_message)
        await self._read_changes()

    async def delete_topic(self, name_or_id: str | uuid.UUID) -> TopicImage:
        topic = self._metadata.require_topic(name_or_id)
        request = DeleteTopicsRequest([DeleteTopicState(None, topic.id)], timeout_ms=int(WAIT_SECONDS * 1000))
        answer = await self._ask(request)
        raise_for(answer.responses[0].error_code, answer.responses[0].error_message)
        await self._read_changes()
        return topic

    async def allocate_producer_ids(self) -> ProducerIdBlock:
        answer = await self._ask(AllocateProducerIdsRequest(self._broker_id, self._broker_epoch()))
        raise_for(answer.error_code)
        first = answer.producer_id_start
        return ProducerIdBlock(self._broker_id, first, first + answer.producer_id_len - 1)

    async def _read_changes(self) -> None:
        """Return when this broker has published all that is committed now; raise REQUEST_TIMED_OUT."""

        async def committed_end() -> int:
            return end_of(partition_of(await described_quorum(self._quorum)))

        try:
            end = await retrying(committed_end, self._pauses, _BACKOFF, WAIT_SECONDS, retriable=_is_retriable)
        except PylogbrokerError as error:
            raise KafkaError(f"{_LATE}: {error}", ErrorCode.REQUEST_TIMED_OUT) from error
        await self._published.reach(end - 1, _LATE)

    async def _ask(self, request: Request) -> Any:
        try:
            return await self._quorum.send(_PURPOSE, request)
        except ClientError as error:
            raise KafkaError(f"the active controller does not answer: {error}", ErrorCode.REQUEST_TIMED_OUT) from error


def _is_retriable(error: BaseException) -> bool:
    """Return whether another controller, or the same one later, may say what is committed."""
    if isinstance(error, KafkaError):
        return error.code in _OTHER_LEADS
    return isinstance(error, ClientError | WireError)
