"""Requests of members of groups of Kafka Streams, and their results."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import attrs

from pylogbroker.errors import ErrorCode
from pylogbroker.groups.streams.configuration import ConfiguredTopology, GroupTopology, TopicToCreate
from pylogbroker.groups.streams.states import StatusCode
from pylogbroker.groups.streams.tasks import NO_TASKS, Task, Tasks


@attrs.frozen
class StreamsHeartbeat:
    """Heartbeat of a member; None is "as before"."""

    group_id: str
    member_id: str
    epoch: int
    endpoint_epoch: int = -1
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int | None = None
    topology: GroupTopology | None = None
    owned: Tasks | None = None
    process_id: str | None = None
    endpoint: tuple[str, int] | None = None
    client_tags: Mapping[str, str] | None = None
    offsets: Mapping[Task, int] | None = None
    end_offsets: Mapping[Task, int] | None = None
    shuts_down: bool = False
    client_id: str = ""
    client_host: str = ""

    @property
    def is_full(self) -> bool:
        """Return whether the client lost track: it sends all fields, and needs its assignment."""
        return self.rebalance_timeout_ms is not None and self.process_id is not None and self.owned is not None


@attrs.frozen
class PartitionsOfEndpoint:
    """Partitions, by topic, about whose records an instance answers queries."""

    endpoint: tuple[str, int]
    active: Mapping[str, Collection[int]]
    standby: Mapping[str, Collection[int]]


@attrs.frozen
class StreamsHeartbeatResult:
    """`assignment` and `endpoints` are None if they are as in an earlier answer.

    `missing` has internal topics, which the broker creates if the member may do so.
    """

    error: ErrorCode
    text: str | None = None
    member_id: str = ""
    epoch: int = 0
    interval_ms: int = 0
    recovery_lag: int = 0
    offset_interval_ms: int = 0
    statuses: tuple[tuple[StatusCode, str], ...] = ()
    assignment: Tasks | None = None
    endpoint_epoch: int = 0
    endpoints: tuple[PartitionsOfEndpoint, ...] | None = None
    missing: tuple[TopicToCreate, ...] = ()


@attrs.frozen
class StreamsMemberDescription:
    member_id: str
    epoch: int
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    topology_epoch: int
    process_id: str
    endpoint: tuple[str, int] | None
    client_tags: Mapping[str, str]
    offsets: Mapping[Task, int]
    end_offsets: Mapping[Task, int]
    assignment: Tasks = NO_TASKS
    target: Tasks = NO_TASKS


@attrs.frozen
class StreamsGroupDescription:
    """`configured` has the numbers of partitions of internal topics."""

    error: ErrorCode
    group_id: str
    text: str | None = None
    state: str = ""
    epoch: int = 0
    target_epoch: int = 0
    topology: GroupTopology | None = None
    configured: ConfiguredTopology | None = None
    assignor: str = ""
    members: tuple[StreamsMemberDescription, ...] = ()
