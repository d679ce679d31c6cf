"""Answers to the requests of `cases`, of both brokers, without what differs between two brokers anyway."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import attrs

from pylogbroker.security.acls.bindings import AclBinding
from pylogbroker.wire import Request, request_codec, response_codec
from pylogbroker.wire.headers import decode_response_header
from pylogbroker.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from pylogbroker.wire.messages.create_acls import AclCreation, CreateAclsRequest
from pylogbroker.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from pylogbroker.wire.messages.describe_acls import DescribeAclsRequest
from pylogbroker.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest
from pylogbroker.wire.messages.init_producer_id import InitProducerIdRequest
from pylogbroker.wire.messages.metadata import MetadataRequest
from pylogbroker.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pylogbroker.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from pylogbroker.wire.messages.sasl_handshake import SaslHandshakeRequest
from pylogbroker.wire.schema import fields_of
from tests.broker.security.cases import SUPER_HOST, TOPICS, Setting, acl_bindings, all_cases, user_of
from tests.support.waiting import wait_until

Ask = Callable[[str, Request, int], Any]
"""Asks a broker as a client of an address, in a version of the API."""

PASSWORD = "word"
LEFT_OUT = {
    "throttle_time_ms",
    "traffic",  # a tagged field of our own
    "brokers",
    "cluster_id",
    "controller_id",
    "host",
    "port",
    "node_id",
    "api_keys",
    "records",
    "leader_id",
    "replica_nodes",
    "isr_nodes",
    "supported_features",
    "finalized_features",
    "finalized_features_epoch",
}
"""Fields that differ between two brokers."""

TIMES_OF_TOKENS = {"issue_timestamp_ms", "expiry_timestamp_ms", "max_timestamp_ms"}
"""Without a token they are 0 with KRaft, and -1 in ZooKeeper mode and here."""

ASSIGNED = {"producer_id", "transaction_start_time_ms", "start_time_ms"}


def set_up(ask: Ask, bindings: list[AclBinding]) -> Setting:
    """Make topics, offsets, transactions and ACLs; before there are ACLs, everybody may do everything."""
    ask(SUPER_HOST, CreateTopicsRequest([CreatableTopic(name, 1, 1) for name in TOPICS], 30_000), 7)
    wait_until(lambda: len(_topic_ids(ask)) == len(TOPICS))
    for kind, keys in ((0, ("g", "h")), (1, ("x", "y"))):
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=list(keys))
        wait_until(lambda request=request: not any(e.error_code for e in ask(SUPER_HOST, request, 4).coordinators))
    for group in ("g", "h"):
        wait_until(lambda group=group: _commit(ask, group))
    producers = {name: _begin(ask, name) for name in ("x", "y")}
    creations = [
        AclCreation(
            each.resource.type,
            each.resource.name,
            each.resource.pattern,
            each.entry.principal,
            each.entry.host,
            each.entry.operation,
            each.entry.permission,
        )
        for each in bindings
    ]
    ask(SUPER_HOST, CreateAclsRequest(creations), 2)
    wait_until(lambda: _count_acls(ask) == len(bindings))
    return Setting(_topic_ids(ask), producers["y"])


def _topic_ids(ask: Ask) -> dict[str, UUID]:
    topics = ask(SUPER_HOST, MetadataRequest(None), 12).topics
    return {topic.name: topic.topic_id for topic in topics if topic.name in TOPICS}


def _commit(ask: Ask, group: str) -> bool:
    partition = OffsetCommitRequestPartition(0, 3, committed_metadata="")
    request = OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic(name, [partition]) for name in TOPICS])
    answer = ask(SUPER_HOST, request, 8)
    return not any(each.error_code for topic in answer.topics for each in topic.partitions)


def _begin(ask: Ask, name: str) -> int:
    """Begin a transaction; return the producer's id."""
    wait_until(lambda: not ask(SUPER_HOST, InitProducerIdRequest(name, 600_000), 4).error_code)
    producer = ask(SUPER_HOST, InitProducerIdRequest(name, 600_000), 4)
    topics = [AddPartitionsToTxnTopic(topic, [0]) for topic in TOPICS]
    request = AddPartitionsToTxnRequest([], name, producer.producer_id, producer.producer_epoch, topics)
    ask(SUPER_HOST, request, 3)
    return int(producer.producer_id)


def _count_acls(ask: Ask) -> int:
    answer = ask(SUPER_HOST, DescribeAclsRequest(1, None, 1, None, None, 1, 1), 2)
    return sum(len(resource.acls) for resource in answer.resources)


def answers(ask: Ask, by_user: bool = False) -> dict[str, Any]:
    """Return the answers to all cases, by case and version."""
    setting = set_up(ask, acl_bindings(by_user))
    return {
        f"{case.name}; version {version}": plain(ask(case.host, case.request(setting), version), setting, version)
        for case in all_cases()
        for version in case.versions
    }


def plain(value: Any, setting: Setting, version: int) -> Any:
    """Return a message as a value of JSON, with the fields of the version, lists in the order of their text."""
    if isinstance(value, list | tuple):
        return sorted((plain(each, setting, version) for each in value), key=repr)
    if attrs.has(type(value)):
        fields = {field.name: getattr(value, field.name) for field in fields_of(type(value)) if field.is_in(version)}
        if not fields.get("error_code") or isinstance(value, Coordinator):  # Kafka gives those no texts
            fields.pop("error_message", None)
        kept = {name: _usual(name, each) for name, each in fields.items() if name not in LEFT_OUT}
        return {name: plain(each, setting, version) for name, each in kept.items()}
    if isinstance(value, UUID):
        return next((f"id of {name}" for name, each in setting.ids.items() if each == value), str(value))
    return value.hex() if isinstance(value, bytes | memoryview) else value


def _usual(name: str, value: Any) -> Any:
    """Return a stand-in for numbers that no two brokers assign alike, and whether there are texts and settings."""
    if name == "configs":
        return bool(value)
    if name == "error_message":
        return bool(value)
    if name in TIMES_OF_TOKENS:
        return value if value > 0 else "none"
    return "assigned" if name in ASSIGNED and isinstance(value, int) and value > 0 else value


@contextlib.contextmanager
def asking(port: int) -> Iterator[Ask]:
    """Ask the broker at a port of this machine, whose loopback network has many addresses."""
    with contextlib.ExitStack() as stack:
        connections: dict[str, socket.socket] = {}

        def ask(host: str, request: Request, version: int) -> Any:
            if host not in connections:
                connected = socket.create_connection(("127.0.0.1", port), 30, source_address=(host, 0))
                connections[host] = stack.enter_context(connected)
            connections[host].sendall(
                b"".join(map(bytes, request_codec(request.api_key, version).frame(1, "c", request)))
            )
            with connections[host].makefile("rb") as stream:
                (size,) = struct.unpack(">i", stream.read(4))
                frame = memoryview(stream.read(size))
            _, position = decode_response_header(frame, request.api_key, version)
            return response_codec(request.api_key, version).decode(frame, position)

        yield ask


@contextlib.contextmanager
def asking_as_users(port: int, sasl_port: int) -> Iterator[Ask]:
    """Ask as the users of addresses, who log in by SASL; without it as `SUPER_HOST`."""
    with asking(port) as ask_anonymously, asking(sasl_port) as ask_by_sasl:
        known = set[str]()

        def ask(host: str, request: Request, version: int) -> Any:
            if host == SUPER_HOST:
                return ask_anonymously(host, request, version)
            if host not in known:
                login = SaslAuthenticateRequest(f"\0{user_of(host)}\0{PASSWORD}".encode())
                assert ask_by_sasl(host, SaslHandshakeRequest("PLAIN"), 1).error_code == 0
                assert ask_by_sasl(host, login, 2).error_code == 0
                known.add(host)
            return ask_by_sasl(host, request, version)

        yield ask
