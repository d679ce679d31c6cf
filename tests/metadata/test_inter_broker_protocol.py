"""The versions of each `inter.broker.protocol.version`, beside Kafka's own table and captured requests."""

from __future__ import annotations

from pathlib import Path

import pytest

from pylogbroker.metadata.inter_broker_protocol import (
    INTER_BROKER_PROTOCOLS,
    InterBrokerProtocol,
    UnknownProtocolVersion,
)
from pylogbroker.wire import SUPPORTED
from pylogbroker.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from pylogbroker.wire.messages.alter_partition import AlterPartitionRequest
from pylogbroker.wire.messages.controlled_shutdown import ControlledShutdownRequest
from pylogbroker.wire.messages.fetch import FetchRequest
from pylogbroker.wire.messages.leader_and_isr import LeaderAndIsrRequest
from pylogbroker.wire.messages.list_offsets import ListOffsetsRequest
from pylogbroker.wire.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from pylogbroker.wire.messages.stop_replica import StopReplicaRequest
from pylogbroker.wire.messages.update_metadata import UpdateMetadataRequest
from pylogbroker.wire.messages.write_txn_markers import WriteTxnMarkersRequest
from tests.peers.java import Program
from tests.support.oracle_answers import OracleAnswers

PROGRAM = Program(Path(__file__).with_name("InterBrokerProtocols.java"), "kafka-3.9")
SENT = (
    FetchRequest,
    ListOffsetsRequest,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
    ControlledShutdownRequest,
    OffsetForLeaderEpochRequest,
    WriteTxnMarkersRequest,
    AlterPartitionRequest,
    AllocateProducerIdsRequest,
)
TEXTS = ["3.9", "3.9.2", "2.7", "2.7-IV0", "2.7-IV1", "2.7.1-IV9", "3.9-IV1", "3.9-IV0.1", "2.8.", "2.8..1", "3.3"]
TEXTS += ["3", "", "3.10", "03.9", "3.9-iv0", "3.9-", "3.-1", "x.y", "2.7-IV", "3.7-IV4", "3.7-IV5", "2.7 ", "\u0663.9"]


NOT_OFFERED = ("2.7-IV0", "2.7-IV1")


def test_protocol_table_matches_kafkas(oracle: OracleAnswers) -> None:
    question = "".join(f"{text}\n" for text in TEXTS)
    lines = oracle.answer("inter-broker-protocols", question, lambda: PROGRAM.run(input=question).stdout.splitlines())
    rows = [dict(part.split(":") for part in line.split()[1:]) | {"": line.split()[0]} for line in lines[: -len(TEXTS)]]
    from_2_7 = [row for row in rows if row[""] >= "2.7-IV2" and row[""] < "4"]
    assert [row.pop("") for row in from_2_7] == list(map(str, INTER_BROKER_PROTOCOLS))
    assert {row.pop("has_alter_partition") for row in from_2_7} == {"true"}
    for row, protocol in zip(from_2_7, INTER_BROKER_PROTOCOLS, strict=True):
        assert row == {
            name: str(protocol.version_of(int(name)) if name.isdigit() else getattr(protocol, name)).lower()
            for name in row
        }
    for text, line in zip(TEXTS, lines[-len(TEXTS) :], strict=True):
        assert line == f"'{text}' {text if text in NOT_OFFERED else parsed(text)}"
    assert [parsed(text) for text in NOT_OFFERED] == ["none", "none"]


def parsed(text: str) -> str:
    try:
        return str(InterBrokerProtocol.parse(text))
    except UnknownProtocolVersion:
        return "none"


@pytest.mark.parametrize(
    ("text", "versions"),
    [
        ("2.7", [12, 5, 4, 3, 6, 3, 3, 0, 1, None]),
        ("2.8-IV0", [12, 6, 4, 3, 6, 3, 4, 1, 3, None]),
        ("2.8", [12, 6, 5, 3, 7, 3, 4, 1, 3, None]),
        ("3.0", [12, 7, 5, 3, 7, 3, 4, 1, 3, 0]),
        ("3.2", [13, 7, 6, 3, 7, 3, 4, 1, 3, 0]),
        ("3.4", [13, 7, 7, 4, 8, 3, 4, 1, 3, 0]),
        ("3.9", [17, 9, 7, 4, 8, 3, 4, 1, 3, 0]),
    ],
)
def test_the_versions_of_requests(text: str, versions: list[int | None]) -> None:
    protocol = InterBrokerProtocol.parse(text)
    for request, version in zip(SENT, versions, strict=True):
        if version is None:
            with pytest.raises(LookupError, match=f"{protocol} has no request of API {request.api_key}"):
                protocol.version_of(request.api_key)
        else:
            assert protocol.version_of(request.api_key) == version


def test_every_version_is_declared_and_none_falls() -> None:
    for request in SENT:
        versions = []
        for protocol in INTER_BROKER_PROTOCOLS:
            if request is AllocateProducerIdsRequest and not protocol.allocates_producer_ids:
                continue
            versions.append(protocol.version_of(request.api_key))
        assert all(version in SUPPORTED[request.api_key][0].versions for version in versions)
        assert versions == sorted(versions)


def test_requests_to_the_controller_are_negotiated() -> None:
    negotiated = {AlterPartitionRequest.api_key, AllocateProducerIdsRequest.api_key}
    for protocol in INTER_BROKER_PROTOCOLS:
        fixed = {request.api_key for request in SENT} - negotiated
        assert protocol.fixed_versions == {api_key: protocol.version_of(api_key) for api_key in fixed}


def test_an_api_that_no_protocol_fixes() -> None:
    with pytest.raises(LookupError):
        InterBrokerProtocol.parse("3.9").version_of(24)


@pytest.mark.parametrize(
    ("text", "by_id", "by_name"), [("2.7", (12, 1), (12, 1)), ("3.0", (12, 3), (12, 1)), ("3.9", (17, 3), (12, 1))]
)
def test_a_topic_without_an_id_needs_a_version_with_names(
    text: str, by_id: tuple[int, int], by_name: tuple[int, int]
) -> None:
    protocol = InterBrokerProtocol.parse(text)
    for has_topic_ids, versions in ((True, by_id), (False, by_name)):
        assert versions == (
            protocol.fetch_version(has_topic_ids=has_topic_ids),
            protocol.alter_partition_version_max(has_topic_ids=has_topic_ids),
        )


def test_the_feature_node() -> None:
    found = [InterBrokerProtocol.parse(text).feature_node_version for text in ("2.7", "3.2", "3.3-IV0", "3.9")]
    assert found == [1, 1, 2, 2]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("2.6", "expected at least 2.7: upgrade the cluster's brokers, then set 2.7 or higher for all of them"),
        ("0.11.0-IV2", "expected at least 2.7: upgrade"),
        ("2.6-IV0", "expected at least 2.7: upgrade"),
        (
            "2.7-IV0",
            "expected at least 2.7-IV2: earlier brokers change ISRs without the controller",
        ),
        ("2.7-IV1", "expected at least 2.7-IV2"),
        ("4.0-IV0", "expected at most 3.9: later versions are for clusters without ZooKeeper"),
        ("3.10", "expected at most 3.9"),
        ("2.7-IV3", "expected a version of Kafka"),
        ("3.9-IV1", "expected a version of Kafka from 2.7 to 3.9, as 3.9 or 2.7-IV2"),
        ("latest", "expected a version of Kafka"),
        ("", "expected a version of Kafka"),
    ],
)
def test_unsupported_versions_are_rejected(text: str, words: str) -> None:
    with pytest.raises(UnknownProtocolVersion, match=f"^{words}"):
        InterBrokerProtocol.parse(text)
