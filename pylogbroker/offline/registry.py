"""Parse Kafka's nodes in ZooKeeper: topics, settings, and committed offsets. Pure functions.

| node                                         | 0.7                      | since 0.8                          |
|----------------------------------------------|--------------------------|------------------------------------|
| `/brokers/topics/<topic>`                    |                          | JSON with the partitions           |
| `/brokers/topics/<topic>/<broker>`           | its number of partitions |                                    |
| `/consumers/<group>/offsets/<topic>/<place>` | `<broker>-<partition>`   | `<partition>`                      |
| `/config/topics/<topic>`                     |                          | JSON with the topic's own settings |
| `/admin/delete_topics/<topic>`               |                          | deletion is pending                |
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import attrs

from pylogbroker.java.text import is_digits
from pylogbroker.metadata import zk_paths, zk_schema
from pylogbroker.metadata.topic_names import INTERNAL_TOPICS
from pylogbroker.metadata.zk_schema import BadNode

_TOPIC: Final = re.compile(r"/brokers/topics/([^/]+)")
_BROKER: Final = re.compile(r"/brokers/topics/([^/]+)/(\d{1,9})", re.ASCII)
_OFFSET: Final = re.compile(r"/consumers/([^/]+)/offsets/([^/]+)/([^/]+)")
_PLACE: Final = re.compile(r"(?:\d{1,9}-)?\d{1,9}", re.ASCII)
_OFFSET_MAX: Final = 2**63 - 1


@attrs.frozen
class RegisteredTopic:
    """A topic as registered; for 0.7, `origins` maps `<broker>-<partition>` to the new partition."""

    name: str
    partitions: int
    overrides: Mapping[str, str] = attrs.field(factory=dict)
    origins: Mapping[str, int] = attrs.field(factory=dict)


@attrs.frozen
class RegisteredOffset:
    """Committed offset in one `place`: a partition, or `<broker>-<partition>` of 0.7."""

    group: str
    topic: str
    place: str
    offset: int


@attrs.frozen
class Registry:
    """Topics by name, offsets, and messages about invalid nodes."""

    topics: Mapping[str, RegisteredTopic]
    offsets: tuple[RegisteredOffset, ...]
    problems: tuple[str, ...]


def read_registry(nodes: Mapping[str, bytes]) -> Registry:
    """Parse nodes; skip internal topics, and topics being deleted."""
    problems: list[str] = []
    return Registry(_topics(nodes, problems), _offsets(nodes, problems), tuple(problems))


def _topics(nodes: Mapping[str, bytes], problems: list[str]) -> dict[str, RegisteredTopic]:
    of_07: dict[str, dict[int, int]] = {}
    topics: dict[str, RegisteredTopic] = {}
    for path, data in sorted(nodes.items()):
        try:
            if (match := _BROKER.fullmatch(path)) and _is_wanted(match[1], nodes):
                of_07.setdefault(match[1], {})[int(match[2])] = _number(data)
            elif (match := _TOPIC.fullmatch(path)) and data and _is_wanted(match[1], nodes):
                topics[match[1]] = _topic(match[1], data, nodes)
        except BadNode as error:
            problems.append(f"{path}: {error}")
    return {name: _topic_of_07(name, counts) for name, counts in of_07.items() if name not in topics} | topics


def _is_wanted(topic: str, nodes: Mapping[str, bytes]) -> bool:
    return topic not in INTERNAL_TOPICS and zk_paths.deleted_topic(topic) not in nodes


def _topic(name: str, data: bytes, nodes: Mapping[str, bytes]) -> RegisteredTopic:
    partitions = len(zk_schema.decode_topic(data).replicas)
    return RegisteredTopic(name, partitions, zk_schema.decode_config(nodes.get(zk_paths.topic_config(name), b"")))


def _topic_of_07(name: str, counts: Mapping[int, int]) -> RegisteredTopic:
    places = [f"{broker}-{number}" for broker in sorted(counts) for number in range(counts[broker])]
    return RegisteredTopic(name, len(places), {}, {place: number for number, place in enumerate(places)})


def _offsets(nodes: Mapping[str, bytes], problems: list[str]) -> tuple[RegisteredOffset, ...]:
    offsets = []
    for path, data in sorted(nodes.items()):
        match = _OFFSET.fullmatch(path)
        if match is None:
            continue
        try:
            if not _PLACE.fullmatch(match[3]):
                raise BadNode(f"{match[3]} is not a partition")
            offsets.append(RegisteredOffset(match[1], match[2], match[3], _number(data)))
        except BadNode as error:
            problems.append(f"{path}: {error}")
    return tuple(offsets)


def _number(data: bytes) -> int:
    text = data.decode("ascii", "replace").strip()
    if not (is_digits(text) and int(text) <= _OFFSET_MAX):
        raise BadNode(f"not a number: {text[:40]!r}")
    return int(text)
