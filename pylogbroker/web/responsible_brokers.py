"""Brokers that answer for a part of the cluster: the controller, leaders of partitions, coordinators."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import FirstError, ensureDeferred, gatherResults

from pylogbroker.broker.services import Services
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.metadata.image import NO_CONTROLLER, NO_LEADER
from pylogbroker.metadata.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from pylogbroker.security.acls.bindings import AclOperation, AclResourceType
from pylogbroker.web.visitors import Visitor
from pylogbroker.wire import Request


def controller_of(services: Services) -> int:
    """Return the broker that changes topics; raise NOT_CONTROLLER."""
    controller = services.metadata.image.controller_id
    if controller == NO_CONTROLLER:
        raise KafkaError("the cluster has no controller now", ErrorCode.NOT_CONTROLLER)
    return controller


def leader_of(visitor: Visitor, topic: str, index: int) -> int:
    """Return the leader of a partition; raise KafkaError, also for a visitor who may not see the topic."""
    visitor.check(AclOperation.DESCRIBE, AclResourceType.TOPIC, topic)
    return _leader(visitor.services, topic, index, ErrorCode.LEADER_NOT_AVAILABLE)


def group_coordinator(services: Services, group_id: str) -> int:
    """Return the coordinator of a group; raise COORDINATOR_NOT_AVAILABLE."""
    if OFFSETS_TOPIC not in services.metadata.topics:
        return services.node.id  # nobody has a group yet
    index = services.groups.partition_for(group_id)
    return _leader(services, OFFSETS_TOPIC, index, ErrorCode.COORDINATOR_NOT_AVAILABLE)


def transaction_coordinator(services: Services, transactional_id: str) -> int:
    """Return the coordinator of a transactional id; raise COORDINATOR_NOT_AVAILABLE."""
    if TRANSACTIONS_TOPIC not in services.metadata.topics:
        return services.node.id
    index = services.transactions.partition_for(transactional_id)
    return _leader(services, TRANSACTIONS_TOPIC, index, ErrorCode.COORDINATOR_NOT_AVAILABLE)


def lacks_group_coordinators(services: Services) -> bool:
    """Return whether groups are missing from all lists, because their coordinator is not there."""
    return _lacks_leaders(services, OFFSETS_TOPIC)


def lacks_transaction_coordinators(services: Services) -> bool:
    """Return whether transactional ids are missing from all lists, because their coordinator is not there."""
    return _lacks_leaders(services, TRANSACTIONS_TOPIC)


def _lacks_leaders(services: Services, topic: str) -> bool:
    image, brokers = services.metadata.topics.get(topic), services.metadata.image.brokers
    return image is not None and any(
        state.leader not in brokers and (topic, index) not in services.partitions.led
        for index, state in image.partitions.items()
    )


def _leader(services: Services, topic: str, index: int, missing: ErrorCode) -> int:
    if (topic, index) in services.partitions.led:
        return services.node.id
    state = services.metadata.require_topic(topic).partitions.get(index)
    if state is None:
        raise KafkaError(f"{topic} has no partition {index}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if state.leader == NO_LEADER:
        raise KafkaError(f"{topic}-{index} has no leader now", missing)
    return state.leader


async def ask_all(visitor: Visitor, request: Request) -> dict[int, Any]:
    """Return the answers of this broker and the others that are alive, None for one that does not answer."""
    services = visitor.services

    async def answer(broker_id: int) -> Any:
        try:
            return await visitor.ask(request, broker_id)
        except KafkaError:
            return None

    broker_ids = sorted({services.node.id, *services.metadata.image.brokers})
    try:
        answers = await gatherResults([ensureDeferred(answer(broker)) for broker in broker_ids], consumeErrors=True)
    except FirstError as error:  # the visitor has gone
        raise error.subFailure.value or error from None
    return dict(zip(broker_ids, answers, strict=True))
