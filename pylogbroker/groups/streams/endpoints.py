"""Endpoints of a group of Kafka Streams: which instance answers interactive queries about which partitions."""

from __future__ import annotations

from collections.abc import Mapping

from pylogbroker.groups.streams.configuration import sources_of
from pylogbroker.groups.streams.group import StreamsGroup
from pylogbroker.groups.streams.port import StreamsPort
from pylogbroker.groups.streams.requests import PartitionsOfEndpoint
from pylogbroker.groups.streams.tasks import TaskSet, by_subtopology


def partitions_by_endpoint(group: StreamsGroup, port: StreamsPort) -> tuple[PartitionsOfEndpoint, ...]:
    """Return the partitions of the members that have an endpoint."""
    if not group.configured.is_ready:
        return ()
    counts: dict[str, int] = {}
    for topic in group.topology.read_topics():
        shape = port.topic(topic)
        counts[topic] = 0 if shape is None else shape.partitions
    sources = {
        subtopology.subtopology_id: tuple(sources_of(subtopology)) for subtopology in group.topology.subtopologies
    }
    return tuple(
        PartitionsOfEndpoint(
            member.endpoint,
            _partitions(member.assigned.active, sources, counts),
            _partitions(member.assigned.standby, sources, counts),
        )
        for member in group.members.values()
        if member.endpoint is not None
    )


def _partitions(
    tasks: TaskSet, sources: Mapping[str, tuple[str, ...]], counts: Mapping[str, int]
) -> dict[str, list[int]]:
    """Return the partitions that tasks read; a topic may have fewer partitions than its subtopology has tasks."""
    partitions: dict[str, list[int]] = {}
    for subtopology, numbers in by_subtopology(tasks).items():
        for topic in sources.get(subtopology, ()):
            partitions.setdefault(topic, []).extend(number for number in numbers if number < counts[topic])
    return partitions
