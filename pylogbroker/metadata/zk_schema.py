"""Node values of the coordination tree: Kafka's JSON, except "directories" and "imported from 0.7".

| node                   | value                                                                             |
|------------------------|-----------------------------------------------------------------------------------|
| cluster id             | {"version": "1", "id": "<22 characters>"}                                         |
| controller, version 2  | brokerid, timestamp, kraftControllerEpoch -1                                      |
| controller epoch       | decimal text; the node's version fences controllers                               |
| features, version 2    | status 1 (enabled), features {}; version 1 below 3.3                              |
| broker, version 5      | host, port, endpoints, rack, listener_security_protocol_map, features, timestamp  |
| topic, version 3       | topic_id, partitions {"0": [1, 2]}, adding_replicas, removing_replicas            |
| partition state, 1     | leader, leader_epoch, isr, controller_epoch, leader_recovery_state if it is not 0 |
| directories, version 1 | directories {"/data/a": "<22 characters>"}                                        |
| settings, version 1    | config {"retention.ms": "60000"}                                                  |
| producer id block, 1   | broker, block_start, block_end (inclusive), the two as texts                      |
| consumer, version 1    | subscription {"orders": 2}, pattern, timestamp                                    |
| ISR changes, 1         | partitions [{"topic": "orders", "partition": 0}], of leaders below 2.7            |
| log directory event, 1 | broker, event 1 (failure)                                                         |
| preferred elections, 1 | partitions [{"topic": "orders", "partition": 0}]                                  |
| reassignments, 1       | partitions [{"topic": "orders", "partition": 0, "replicas": [1, 2]}]              |
| imported from 0.7, 1   | topic_id, partitions {"0-1": 1}: 0.7's broker and partition, and the number here  |

Keys are in Kafka's order. Nodes without a value have null data, as Kafka writes them: `zk_paths.PERSISTENT`, a topic's
`partitions`, a partition, the mark of a deletion. Earlier releases wrote empty data.

Numbers such as 2.7 are values of inter.broker.protocol.version: brokers write what the cluster's oldest release reads.
Older topic nodes (versions 1 and 2, and 3 below 2.8) lack the id or the reassignment fields;
broker nodes below 2.7 have version 4 without features. Brokers of this project that have a remote storage add
remote_log_storage true. Unreadable values raise BadNode.
"""

from __future__ import annotations

import base64
import json
import re
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from pylogbroker.errors import PylogbrokerError
from pylogbroker.java.text import parse_whole

_ENDPOINT: Final = re.compile(r"(?P<name>.+)://(?:\[(?P<ipv6>[^\[\]]+)\]|(?P<host>[^\[\]:/]+)):(?P<port>[0-9]+)")


class BadNode(PylogbrokerError):
    """A node's value is not of its schema."""


@attrs.frozen
class TopicNode:
    """Topic id (nil in older nodes), and replicas, the preferred one first.

    `adding` and `removing` have the partitions under reassignment.
    """

    topic_id: uuid.UUID
    replicas: Mapping[int, tuple[int, ...]]
    adding: Mapping[int, tuple[int, ...]] = attrs.field(factory=dict)
    removing: Mapping[int, tuple[int, ...]] = attrs.field(factory=dict)


@attrs.frozen
class PartitionNode:
    """Leader (-1: none), epoch and in-sync replicas."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int = 0
    recovery: int = 0


@attrs.frozen
class ControllerNode:
    broker: int
    timestamp_ms: int


@attrs.frozen
class FeaturesNode:
    """Finalized features of the cluster, by name, as Kafka's JSON has them."""

    enabled: bool
    version: int
    features: Mapping[str, object] = attrs.field(factory=dict)


@attrs.frozen
class BrokerNode:
    """`endpoints` are `NAME://host:port`; `protocols` maps their names to protocols."""

    endpoints: Sequence[str]
    protocols: Mapping[str, str]
    rack: str | None = None
    host: str | None = None  # of PLAINTEXT, for the oldest clients
    port: int = -1
    features: Mapping[str, object] = attrs.field(factory=dict)
    has_archive: bool = False
    """`remote_log_storage`, a field of this project's brokers alone; see `archive_hosts`."""


PRODUCER_ID_BLOCK_SIZE: Final = 1000


@attrs.frozen
class ProducerIdBlock:
    """Both ends are included."""

    broker: int
    first: int
    last: int


@attrs.frozen
class Kafka07Topic:
    """`partitions` maps `<broker>-<partition>` of 0.7 to the number here."""

    topic_id: uuid.UUID
    partitions: Mapping[str, int]


@attrs.frozen
class ConsumerNode:
    """Live consumer: streams by topic or regular expression.

    `pattern` is `static` for topic names, `white_list` or `black_list` for a regex of topics.
    """

    subscription: Mapping[str, int]
    pattern: str = "static"


def id_text(value: uuid.UUID) -> str:
    return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")


def new_id() -> uuid.UUID:
    """Return a random id whose text does not begin with '-': commands would take it for an option."""
    while True:
        candidate = uuid.uuid4()
        if not id_text(candidate).startswith("-"):
            return candidate


def parse_id(text: str) -> uuid.UUID:
    """Parse 22 characters of URL-safe base64; raise BadNode if they are invalid."""
    try:
        return uuid.UUID(bytes=base64.urlsafe_b64decode(text + "=="))
    except ValueError as error:
        raise BadNode(f"not an id: {text!r}") from error


def encode_cluster_id(cluster_id: str) -> bytes:
    return _dump({"version": "1", "id": cluster_id})


def decode_cluster_id(data: bytes | None) -> str:
    return str(_field(_load(data), "id", str))


def encode_controller(controller: ControllerNode) -> bytes:
    return _dump(
        {
            "version": 2,
            "brokerid": controller.broker,
            "timestamp": str(controller.timestamp_ms),
            "kraftControllerEpoch": -1,
        }
    )


def decode_controller(data: bytes | None) -> ControllerNode:
    value = _load(data)
    return ControllerNode(_field(value, "brokerid", int), _number(value.get("timestamp", -1)))


def encode_controller_epoch(epoch: int) -> bytes:
    return str(epoch).encode()


def decode_controller_epoch(data: bytes | None) -> int:
    if data is None:
        raise BadNode("no data")
    return _number(data.decode(errors="replace"))


def encode_features(node: FeaturesNode) -> bytes:
    return _dump({"features": dict(node.features), "version": node.version, "status": int(node.enabled)})


def decode_features(data: bytes | None) -> FeaturesNode:
    value = _load(data)
    return FeaturesNode(
        enabled=_field(value, "status", int) == 1,
        version=_field(value, "version", int),
        features=value.get("features", {}),
    )


def encode_topic(topic: TopicNode) -> bytes:
    known_id = {"topic_id": id_text(topic.topic_id)} if topic.topic_id.int else {}
    return _dump(
        {
            "partitions": _replicas_json(topic.replicas),
            **known_id,
            "adding_replicas": _replicas_json(topic.adding),
            "removing_replicas": _replicas_json(topic.removing),
            "version": 3,
        }
    )


def decode_topic(data: bytes | None) -> TopicNode:
    value = _load(data)
    partitions = _field(value, "partitions", dict)
    topic_id = value.get("topic_id")
    return TopicNode(
        topic_id=parse_id(topic_id) if isinstance(topic_id, str) else uuid.UUID(int=0),
        replicas=_replicas(partitions),
        adding=_replicas(value.get("adding_replicas", {})),
        removing=_replicas(value.get("removing_replicas", {})),
    )


def _replicas_json(replicas: Mapping[int, Sequence[int]]) -> dict[str, list[int]]:
    return {str(number): list(brokers) for number, brokers in sorted(replicas.items())}


def _replicas(value: Mapping[str, object]) -> dict[int, tuple[int, ...]]:
    return {_number(number): _numbers(brokers) for number, brokers in value.items()}


def encode_partition(state: PartitionNode) -> bytes:
    recovery = {"leader_recovery_state": state.recovery} if state.recovery else {}
    return _dump(
        {
            "controller_epoch": state.controller_epoch,
            "leader": state.leader,
            "version": 1,
            **recovery,
            "leader_epoch": state.leader_epoch,
            "isr": list(state.isr),
        }
    )


def decode_partition(data: bytes | None) -> PartitionNode:
    value = _load(data)
    return PartitionNode(
        leader=_field(value, "leader", int),
        leader_epoch=_field(value, "leader_epoch", int),
        isr=_numbers(value.get("isr")),
        controller_epoch=_field(value, "controller_epoch", int),
        recovery=_number(value.get("leader_recovery_state", 0)),
    )


def encode_config(settings: Mapping[str, str]) -> bytes:
    return _dump({"version": 1, "config": dict(settings)})


def decode_config(data: bytes | None) -> dict[str, str]:
    """An empty node has no settings."""
    if not data:
        return {}
    return {str(name): str(text) for name, text in _field(_load(data), "config", dict).items()}


def encode_directories(directories: Mapping[str, str]) -> bytes:
    return _dump({"version": 1, "directories": dict(directories)})


def decode_directories(data: bytes | None) -> dict[str, str]:
    return {str(path): str(own) for path, own in _field(_load(data), "directories", dict).items()}


def encode_broker(broker: BrokerNode, now_ms: int) -> bytes:
    rack = {} if broker.rack is None else {"rack": broker.rack}
    archive = {"remote_log_storage": True} if broker.has_archive else {}
    return _dump(
        {
            "features": dict(broker.features),
            "listener_security_protocol_map": dict(broker.protocols),
            "endpoints": list(broker.endpoints),
            **rack,
            "jmx_port": -1,
            "port": broker.port,
            "host": broker.host,
            "version": 5,
            "timestamp": str(now_ms),
            **archive,
        }
    )


def decode_broker(data: bytes | None) -> BrokerNode:
    value = _load(data)
    return BrokerNode(
        endpoints=tuple(_field(value, "endpoints", list)),
        protocols=_field(value, "listener_security_protocol_map", dict),
        rack=value.get("rack"),
        host=value.get("host"),
        port=_field(value, "port", int),
        features=value.get("features", {}),
        has_archive=value.get("remote_log_storage") is True,
    )


def parse_endpoint(text: str) -> tuple[str, str, int]:
    """Parse `NAME://host:port`; raise BadNode if it is invalid."""
    match = _ENDPOINT.fullmatch(text)
    if match is None:
        raise BadNode(f"not an endpoint: {text!r}")
    return match["name"], match["ipv6"] or match["host"], int(match["port"])


def encode_producer_ids(block: ProducerIdBlock) -> bytes:
    return _dump({"version": 1, "broker": block.broker, "block_start": str(block.first), "block_end": str(block.last)})


def decode_producer_ids(data: bytes | None) -> ProducerIdBlock | None:
    if not data:
        return None
    value = _load(data)
    return ProducerIdBlock(
        broker=_field(value, "broker", int),
        first=_number(value.get("block_start")),
        last=_number(value.get("block_end")),
    )


def decode_partition_list(data: bytes | None) -> list[tuple[str, int]]:
    """Decode a list of partitions: of ISR changes, or of preferred elections. Kafka ignores an unreadable one, too."""
    try:
        return [_topic_partition(item) for item in _field(_load(data), "partitions", list)]
    except BadNode:
        return []


def encode_log_dir_event(broker: int) -> bytes:
    return _dump({"version": 1, "broker": broker, "event": 1})


def decode_log_dir_event(data: bytes | None) -> int | None:
    """Return the broker whose log directory failed; None if the node is unreadable, which Kafka ignores, too."""
    try:
        return int(_field(_load(data), "broker", int))
    except BadNode:
        return None


def encode_reassignments(replicas: Mapping[tuple[str, int], Sequence[int]]) -> bytes:
    partitions = [{"topic": topic, "partition": n, "replicas": list(to)} for (topic, n), to in replicas.items()]
    return _dump({"version": 1, "partitions": partitions})


def decode_reassignments(data: bytes | None) -> dict[tuple[str, int], tuple[int, ...]]:
    """Decode the reassignments that a tool asks for. Kafka ignores an unreadable list, too."""
    try:
        items = _field(_load(data), "partitions", list)
        return {_topic_partition(item): _numbers(item.get("replicas")) for item in items}
    except BadNode:
        return {}


def _topic_partition(item: object) -> tuple[str, int]:
    if not isinstance(item, dict):
        raise BadNode(f"not a partition: {item!r}")
    return str(_field(item, "topic", str)), _number(item.get("partition"))


def encode_consumer(consumer: ConsumerNode, now_ms: int) -> bytes:
    return _dump(
        {
            "version": 1,
            "subscription": dict(consumer.subscription),
            "pattern": consumer.pattern,
            "timestamp": str(now_ms),
        }
    )


def decode_consumer(data: bytes | None) -> ConsumerNode:
    """The oldest consumers wrote only the subscription."""
    value = _load(data)
    subscription = _field(value, "subscription", dict) if "version" in value else value
    streams = {str(name): _number(count) for name, count in subscription.items()}
    return ConsumerNode(streams, str(value.get("pattern", "static")) if "version" in value else "static")


def encode_kafka07_topic(topic: Kafka07Topic) -> bytes:
    return _dump({"version": 1, "topic_id": id_text(topic.topic_id), "partitions": dict(topic.partitions)})


def decode_kafka07_topic(data: bytes | None) -> Kafka07Topic:
    value = _load(data)
    partitions = _field(value, "partitions", dict)
    return Kafka07Topic(
        parse_id(_field(value, "topic_id", str)), {str(name): _number(number) for name, number in partitions.items()}
    )


def _dump(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _load(data: bytes | None) -> dict[str, Any]:
    if data is None:
        raise BadNode("no data")
    try:
        value = json.loads(data)
    except ValueError as error:
        raise BadNode(f"not JSON: {data[:80]!r}") from error
    if not isinstance(value, dict):
        raise BadNode(f"not an object: {data[:80]!r}")
    return value


def _field(value: dict[str, Any], name: str, kind: type) -> Any:
    field = value.get(name)
    if not isinstance(field, kind):
        raise BadNode(f"no {name} in {json.dumps(value)[:80]}")
    return field


def _number(value: object) -> int:
    try:
        return parse_whole(str(value), 64)
    except ValueError as error:
        raise BadNode(f"not a number: {value!r}") from error


def _numbers(value: object) -> tuple[int, ...]:
    if not isinstance(value, list):
        raise BadNode(f"not a list of numbers: {value!r}")
    return tuple(_number(item) for item in value)
