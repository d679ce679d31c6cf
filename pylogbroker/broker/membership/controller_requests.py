"""Requests of the controller to brokers as messages of the wire, and errors out of their responses.

`inter.broker.protocol.version` fixes the version of each message. Source: Kafka's ControllerChannelManager.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Final, TypeVar

from pylogbroker.controller.requests import (
    BrokerRequest,
    LeaderAndIsr,
    LeaderAndIsrPartition,
    MetadataPartition,
    StoppedReplica,
    StopReplica,
    UpdateMetadata,
)
from pylogbroker.errors import ErrorCode
from pylogbroker.metadata.image import BrokerRegistration, PartitionKey
from pylogbroker.metadata.inter_broker_protocol import InterBrokerProtocol
from pylogbroker.rpc.client_protocol import PreparedRequest
from pylogbroker.rpc.errors import code_of
from pylogbroker.wire import Request, request_codec, response_codec
from pylogbroker.wire.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from pylogbroker.wire.messages.stop_replica import StopReplicaPartitionState, StopReplicaRequest, StopReplicaTopicState
from pylogbroker.wire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

P = TypeVar("P", LeaderAndIsrPartition, MetadataPartition, StoppedReplica)
_EPOCH_BYTES: Final = 8
_SECURITY_PROTOCOLS: Final = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}


def to_wire(request: BrokerRequest, protocol: InterBrokerProtocol, listener: str) -> Request:
    """Return the message of a request; `listener` is inter.broker.listener.name."""
    match request:
        case LeaderAndIsr():
            return _leader_and_isr(request, protocol, listener)
        case UpdateMetadata():
            return _update_metadata(request)
        case StopReplica():
            return _stop_replica(request)


def _leader_and_isr(request: LeaderAndIsr, protocol: InterBrokerProtocol, listener: str) -> LeaderAndIsrRequest:
    def state_of(partition: LeaderAndIsrPartition) -> LeaderAndIsrPartitionState:
        state = partition.state
        return LeaderAndIsrPartitionState(
            partition_index=partition.number,
            controller_epoch=state.controller_epoch,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            isr=list(state.isr),
            partition_epoch=state.partition_epoch,
            replicas=list(state.replicas),
            adding_replicas=list(state.adding),
            removing_replicas=list(state.removing),
            is_new=partition.is_new,
            leader_recovery_state=int(state.recovery) if protocol.has_leader_recovery_state else 0,
        )

    return LeaderAndIsrRequest(
        controller_id=request.controller_id,
        controller_epoch=request.controller_epoch,
        broker_epoch=request.broker_epoch,
        topic_states=[
            LeaderAndIsrTopicState(topic, partitions[0].topic_id, list(map(state_of, partitions)))
            for topic, partitions in _by_topic(request.partitions).items()
        ],
        live_leaders=[
            LeaderAndIsrLiveLeader(leader.id, address.host, address.port)
            for leader in request.live_leaders
            if (address := leader.listeners.get(listener)) is not None
        ],
    )


def _update_metadata(request: UpdateMetadata) -> UpdateMetadataRequest:
    def state_of(partition: MetadataPartition) -> UpdateMetadataPartitionState:
        state = partition.state
        return UpdateMetadataPartitionState(
            partition_index=partition.number,
            controller_epoch=state.controller_epoch,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            isr=list(state.isr),
            zk_version=state.partition_epoch,
            replicas=list(state.replicas),
            offline_replicas=list(partition.offline_replicas),
        )

    return UpdateMetadataRequest(
        controller_id=request.controller_id,
        controller_epoch=request.controller_epoch,
        broker_epoch=request.broker_epoch,
        topic_states=[
            UpdateMetadataTopicState(topic, partitions[0].topic_id, list(map(state_of, partitions)))
            for topic, partitions in _by_topic(request.partitions).items()
        ],
        live_brokers=[
            UpdateMetadataBroker(broker.id, endpoints=_endpoints(broker), rack=broker.rack)
            for broker in request.live_brokers
        ],
    )


def prepared_update(request: UpdateMetadata, protocol: InterBrokerProtocol) -> PreparedRequest:
    """Return the message of an UpdateMetadata, encoded once for all brokers; raise EncodingError."""
    version = protocol.version_of(UpdateMetadataRequest.api_key)
    body = request.bodies.get(version)
    if body is None:
        body = request.bodies[version] = _encoded_update(_update_metadata(request), version)
    at = _place_of_broker_epoch(version)
    epoch = request.broker_epoch.to_bytes(_EPOCH_BYTES, "big", signed=True)
    own = b"".join((body[:at], epoch, body[at + _EPOCH_BYTES :]))
    decode = response_codec(UpdateMetadataRequest.api_key, version).decode_first
    return PreparedRequest(UpdateMetadataRequest, version, own, decode)


def _encoded_update(message: UpdateMetadataRequest, version: int) -> bytes:
    return request_codec(message.api_key, version).encode(message)


@cache
def _place_of_broker_epoch(version: int) -> int:
    """Return where the broker epoch begins in the body."""
    zeros, ones = (_encoded_update(UpdateMetadataRequest(broker_epoch=epoch), version) for epoch in (0, -1))
    return next(at for at, (zero, one) in enumerate(zip(zeros, ones, strict=True)) if zero != one)


def _endpoints(broker: BrokerRegistration) -> list[UpdateMetadataEndpoint]:
    """Return the listeners that have a protocol of Kafka's; the protocol of Kafka 0.7 has no number."""
    return [
        UpdateMetadataEndpoint(address.port, address.host, name, _SECURITY_PROTOCOLS[address.protocol])
        for name, address in broker.listeners.items()
        if address.protocol in _SECURITY_PROTOCOLS
    ]


def _stop_replica(request: StopReplica) -> StopReplicaRequest:
    def state_of(replica: StoppedReplica) -> StopReplicaPartitionState:
        return StopReplicaPartitionState(replica.number, replica.leader_epoch, replica.delete)

    return StopReplicaRequest(
        controller_id=request.controller_id,
        controller_epoch=request.controller_epoch,
        broker_epoch=request.broker_epoch,
        topic_states=[
            StopReplicaTopicState(topic, list(map(state_of, replicas)))
            for topic, replicas in _by_topic(request.replicas).items()
        ],
    )


def _by_topic(partitions: Iterable[P]) -> dict[str, list[P]]:
    by_topic: dict[str, list[P]] = {}
    for partition in partitions:
        by_topic.setdefault(partition.topic, []).append(partition)
    return by_topic


def errors_of(request: BrokerRequest, response: Any) -> dict[PartitionKey, ErrorCode]:
    """Return the error of each partition that a response names; an error of the whole is that of each partition.

    Nobody acts on the errors of UpdateMetadata.
    """
    whole = code_of(response.error_code)
    match request:
        case UpdateMetadata():
            return {}
        case LeaderAndIsr(partitions=partitions):
            if whole is not ErrorCode.NONE:
                return {(partition.topic, partition.number): whole for partition in partitions}
            return _leader_and_isr_errors(partitions, response)
        case StopReplica(replicas=replicas):
            if whole is not ErrorCode.NONE:
                return {(replica.topic, replica.number): whole for replica in replicas}
            return _errors(response.partition_errors)


def _leader_and_isr_errors(partitions: Iterable[LeaderAndIsrPartition], response: Any) -> dict[PartitionKey, ErrorCode]:
    names: Mapping[uuid.UUID, str] = {partition.topic_id: partition.topic for partition in partitions}
    errors = _errors(response.partition_errors)
    for topic in response.topics:
        name = names.get(topic.topic_id)
        if name is not None:
            errors.update({(name, number): code for (_, number), code in _errors(topic.partition_errors).items()})
    return errors


def _errors(errors: Iterable[Any]) -> dict[PartitionKey, ErrorCode]:
    return {(error.topic_name, error.partition_index): code_of(error.error_code) for error in errors}
