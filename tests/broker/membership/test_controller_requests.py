"""The controller's requests as messages: byte for byte those that Apache Kafka's controllers sent."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import attrs
import pytest

from pylogbroker.broker.membership.controller_requests import errors_of, prepared_update, to_wire
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
from pylogbroker.metadata.image import BrokerListener, BrokerRegistration, LeaderRecovery, PartitionState
from pylogbroker.metadata.inter_broker_protocol import NEWEST_PROTOCOL, InterBrokerProtocol
from pylogbroker.wire import request_codec, response_codec
from pylogbroker.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from pylogbroker.wire.messages.stop_replica import StopReplicaPartitionError, StopReplicaResponse
from pylogbroker.wire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse

CAPTURED = Path(__file__).parents[2] / "captured" / "requests.jsonl"
SAMPLES = [
    sample
    for sample in map(json.loads, CAPTURED.read_text().splitlines())
    if sample["key"] in (4, 5, 6) and sample["kind"] == "req"
]
PROTOCOLS = {"3.9": NEWEST_PROTOCOL, "2.7": InterBrokerProtocol.parse("2.7"), "2.6": InterBrokerProtocol.parse("2.7")}
NO_ID = str(uuid.UUID(int=0))
ID = uuid.UUID(int=7)
STATE = PartitionState(1, (1, 2), (1, 2), 3, 4, controller_epoch=5)
PROTOCOL_NAMES = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


def listener(endpoint: dict[str, Any]) -> BrokerListener:
    return BrokerListener(endpoint["Host"], endpoint["Port"], PROTOCOL_NAMES[endpoint["SecurityProtocol"]])


def state_of(fields: dict[str, Any], epoch: str) -> PartitionState:
    return PartitionState(
        leader=fields["Leader"],
        replicas=tuple(fields["Replicas"]),
        isr=tuple(fields["Isr"]),
        leader_epoch=fields["LeaderEpoch"],
        partition_epoch=fields[epoch],
        adding=tuple(fields.get("AddingReplicas", ())),
        removing=tuple(fields.get("RemovingReplicas", ())),
        recovery=LeaderRecovery(fields.get("LeaderRecoveryState", 0)),
        controller_epoch=fields["ControllerEpoch"],
    )


def value_of(key: int, fields: dict[str, Any]) -> BrokerRequest:
    head = fields["ControllerId"], fields["ControllerEpoch"], fields["BrokerEpoch"]
    each = [(topic, state) for topic in fields["TopicStates"] for state in topic["PartitionStates"]]
    if key == 5:
        replicas = (
            StoppedReplica(topic["TopicName"], state["PartitionIndex"], state["LeaderEpoch"], state["DeletePartition"])
            for topic, state in each
        )
        return StopReplica(*head, tuple(replicas))
    named = [
        (topic["TopicName"], uuid.UUID(topic.get("TopicId", NO_ID)), state["PartitionIndex"], state)
        for topic, state in each
    ]
    if key == 4:
        return LeaderAndIsr(
            *head,
            tuple(
                LeaderAndIsrPartition(*name, state_of(state, "PartitionEpoch"), state["IsNew"])
                for *name, state in named
            ),
            tuple(
                BrokerRegistration(
                    leader["BrokerId"],
                    listeners={"INTERNAL": BrokerListener(leader["HostName"], leader["Port"], "PLAINTEXT")},
                )
                for leader in fields["LiveLeaders"]
            ),
        )
    return UpdateMetadata(
        *head,
        tuple(
            MetadataPartition(*name, state_of(state, "ZkVersion"), tuple(state["OfflineReplicas"]))
            for *name, state in named
        ),
        tuple(
            BrokerRegistration(
                broker["Id"],
                listeners={each["Listener"]: listener(each) for each in broker["Endpoints"]},
                rack=broker["Rack"],
            )
            for broker in fields["LiveBrokers"]
        ),
    )


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: f"{sample['api']}-{sample['version']}-{sample['corr']}")
def test_a_captured_request(sample: dict[str, Any]) -> None:
    protocol = PROTOCOLS[sample["label"].split()[1]]
    message = to_wire(value_of(sample["key"], sample["decoded"]), protocol, "INTERNAL")
    version = protocol.version_of(sample["key"])
    assert version == sample["version"]
    written = request_codec(sample["key"], version).frame(sample["corr"], sample["client"], message)
    assert b"".join(written)[4:].hex() == sample["hex"]


def lead_and_follow(*partitions: LeaderAndIsrPartition) -> LeaderAndIsr:
    return LeaderAndIsr(1, 2, 3, partitions, ())


def test_an_older_protocol_does_not_know_of_recovery() -> None:
    state = PartitionState(1, (1,), (1,), recovery=LeaderRecovery.RECOVERING)
    request = lead_and_follow(LeaderAndIsrPartition("t", ID, 0, state, False))
    for text, expected in (("3.9", 1), ("3.1", 0)):
        protocol = InterBrokerProtocol.parse(text)
        message = to_wire(request, protocol, "INTERNAL")
        assert isinstance(message, LeaderAndIsrRequest)
        assert message.topic_states[0].partition_states[0].leader_recovery_state == expected
        request_codec(4, protocol.version_of(4)).frame(1, "1", message)


def test_only_listeners_of_kafkas_protocols_are_sent() -> None:
    old = {"OLD": BrokerListener("here", 1, "SIMPLE"), "NEW": BrokerListener("here", 2, "SASL_SSL")}
    leader = BrokerRegistration(1, listeners=old)
    message = to_wire(UpdateMetadata(1, 2, 3, (), (leader,)), NEWEST_PROTOCOL, "INTERNAL")
    assert isinstance(message, UpdateMetadataRequest)
    assert [(each.listener, each.security_protocol) for each in message.live_brokers[0].endpoints] == [("NEW", 3)]
    without = to_wire(LeaderAndIsr(1, 2, 3, (), (leader,)), NEWEST_PROTOCOL, "INTERNAL")
    assert isinstance(without, LeaderAndIsrRequest)
    assert without.live_leaders == []


@pytest.mark.parametrize("text", ["2.7", "2.8", "3.9"])
def test_metadata_are_encoded_once_for_all_brokers(text: str) -> None:
    protocol = InterBrokerProtocol.parse(text)
    version = protocol.version_of(UpdateMetadataRequest.api_key)
    partitions = tuple(MetadataPartition("t", ID, number, STATE, (3,)) for number in range(3))
    brokers = (BrokerRegistration(1, listeners={"INTERNAL": BrokerListener("here", 1, "PLAINTEXT")}),)
    first = UpdateMetadata(1, 2, 3, partitions, brokers)
    for epoch in (3, 2**40, -1):
        request = attrs.evolve(first, broker_epoch=epoch)
        prepared = prepared_update(request, protocol)
        expected = request_codec(UpdateMetadataRequest.api_key, version).encode(to_wire(request, protocol, "INTERNAL"))
        assert (prepared.version, prepared.body) == (version, expected)
    body = first.bodies[version]
    prepared_update(attrs.evolve(first, broker_epoch=9), protocol)
    assert first.bodies[version] is body


def test_the_answer_to_prepared_metadata_is_decoded() -> None:
    prepared = prepared_update(UpdateMetadata(1, 2, 3, (), ()), NEWEST_PROTOCOL)
    answer = response_codec(UpdateMetadataRequest.api_key, prepared.version).encode(UpdateMetadataResponse(77))
    assert prepared.decode(memoryview(answer), 0) == UpdateMetadataResponse(77)


LEAD = lead_and_follow(*(LeaderAndIsrPartition("t", ID, number, STATE, False) for number in (0, 1)))
STOP = StopReplica(1, 2, 3, (StoppedReplica("t", 0, 1, True), StoppedReplica("t", 1, 1, True)))
STORAGE = ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize(
    ("request_", "response", "errors"),
    [
        (
            LEAD,
            LeaderAndIsrResponse(
                topics=[
                    LeaderAndIsrTopicError(
                        ID, [LeaderAndIsrPartitionError("", 0, 56), LeaderAndIsrPartitionError("", 1, 0)]
                    ),
                    LeaderAndIsrTopicError(uuid.UUID(int=8), [LeaderAndIsrPartitionError("", 2, 56)]),
                ]
            ),
            {("t", 0): STORAGE, ("t", 1): ErrorCode.NONE},
        ),
        (
            LEAD,
            LeaderAndIsrResponse(partition_errors=[LeaderAndIsrPartitionError("t", 1, 56)]),
            {("t", 1): STORAGE},
        ),
        (
            LEAD,
            LeaderAndIsrResponse(11),
            {("t", 0): ErrorCode.STALE_CONTROLLER_EPOCH, ("t", 1): ErrorCode.STALE_CONTROLLER_EPOCH},
        ),
        (STOP, StopReplicaResponse(0, [StopReplicaPartitionError("t", 1, 56)]), {("t", 1): STORAGE}),
        (
            STOP,
            StopReplicaResponse(77),
            {("t", 0): ErrorCode.STALE_BROKER_EPOCH, ("t", 1): ErrorCode.STALE_BROKER_EPOCH},
        ),
        (
            UpdateMetadata(1, 2, 3, (MetadataPartition("t", ID, 0, STATE, ()),), ()),
            UpdateMetadataResponse(77),
            {},
        ),
    ],
)
def test_errors_of_responses(request_: BrokerRequest, response: Any, errors: dict[Any, ErrorCode]) -> None:
    assert errors_of(request_, response) == errors
