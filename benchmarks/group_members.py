"""Members of one group, each with a connection, that keep to the timing of a consumer; no records are read.

A member of the classic protocol joins, syncs, and joins again when a heartbeat says so; the leader assigns in ranges. A
member of KIP-848 sends heartbeats, takes what its coordinator assigns, and confirms each change at once.
"""

import asyncio
import struct
import uuid
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import attrs

from pylogbroker.assignors import assign_in_ranges
from pylogbroker.errors import ErrorCode
from pylogbroker.interfaces import Subscription
from pylogbroker.wire import decode_response_header, request_codec, response_codec
from pylogbroker.wire.consumer_protocol import (
    PROTOCOL_TYPE,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from pylogbroker.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, OwnedTopicPartitions
from pylogbroker.wire.messages.find_coordinator import FindCoordinatorRequest
from pylogbroker.wire.messages.heartbeat import HeartbeatRequest
from pylogbroker.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from pylogbroker.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from pylogbroker.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

CLIENT_ID = "benchmark"
VERSIONS = {10: 4, 11: 9, 12: 4, 13: 5, 14: 5, 68: 1}
SESSION_MS = 45_000
REBALANCE_MS = 60_000
_SIZE = struct.Struct(">i")
Partitions = frozenset[tuple[Any, int]]


@attrs.define
class MemberConnection:
    """Connection that has one request at a time in flight."""

    _reader: asyncio.StreamReader
    _writer: asyncio.StreamWriter
    _correlation_id: int = 0

    @classmethod
    async def open(cls, host: str, port: int) -> "MemberConnection":
        return cls(*await asyncio.open_connection(host, port))

    async def call(self, request: Any) -> Any:
        version = VERSIONS[request.api_key]
        self._correlation_id += 1
        frame: Iterable[Any] = request_codec(request.api_key, version).frame(self._correlation_id, CLIENT_ID, request)
        self._writer.write(b"".join(frame))
        (size,) = _SIZE.unpack(await self._reader.readexactly(_SIZE.size))
        body = memoryview(await self._reader.readexactly(size))
        _, position = decode_response_header(body, request.api_key, version)
        return response_codec(request.api_key, version).decode(body, position)

    async def find_coordinator(self, group: str) -> None:
        """Wait until the broker coordinates the group."""
        while (
            (await self.call(FindCoordinatorRequest(key_type=0, coordinator_keys=[group]))).coordinators[0].error_code
        ):
            await asyncio.sleep(0.1)

    def close(self) -> None:
        self._writer.close()


class Member(Protocol):
    """Member of a group. `owned` is what it may read in `epoch`, which is -1 before the first assignment."""

    owned: Partitions
    epoch: int

    async def run(self) -> None:
        """Join, and follow the assignments until cancelled."""

    async def leave(self) -> None:
        """Leave the group after `run` was cancelled."""


@attrs.define(eq=False)
class ClassicMember:
    """Member of the classic protocol."""

    _connection: MemberConnection
    _group: str
    _topic: str
    _partitions: int
    _interval: float
    _changed: Callable[[], None]
    owned: Partitions = frozenset()
    epoch: int = -1
    _id: str = ""

    async def run(self) -> None:
        while True:
            joined = await self._join()
            synced = await self._connection.call(self._sync(joined))
            if not synced.error_code:
                self.owned = frozenset(decode_assignment(synced.assignment))
                self.epoch = joined.generation_id
                self._changed()
                await self._beat(joined.generation_id)
            self.owned, self.epoch = frozenset(), -1

    async def _join(self) -> JoinGroupResponse:
        protocols = [JoinGroupRequestProtocol("range", encode_subscription(Subscription((self._topic,))))]
        while True:
            request = JoinGroupRequest(
                self._group, SESSION_MS, REBALANCE_MS, self._id, None, PROTOCOL_TYPE, protocols, None
            )
            joined: JoinGroupResponse = await self._connection.call(request)
            if joined.error_code not in (0, ErrorCode.MEMBER_ID_REQUIRED):
                raise RuntimeError(f"JoinGroup is answered by {ErrorCode(joined.error_code).name}")
            self._id = joined.member_id
            if not joined.error_code:
                return joined

    def _sync(self, joined: JoinGroupResponse) -> SyncGroupRequest:
        members = {member.member_id: decode_subscription(member.metadata) for member in joined.members}
        assigned = assign_in_ranges({self._topic: self._partitions}, members) if members else {}
        assignments = [
            SyncGroupRequestAssignment(member, encode_assignment(partitions)) for member, partitions in assigned.items()
        ]
        return SyncGroupRequest(self._group, joined.generation_id, self._id, None, PROTOCOL_TYPE, "range", assignments)

    async def _beat(self, generation: int) -> None:
        """Send heartbeats until one is not accepted."""
        while True:
            await asyncio.sleep(self._interval)
            answer = await self._connection.call(HeartbeatRequest(self._group, generation, self._id))
            if answer.error_code:
                return

    async def leave(self) -> None:
        await self._connection.call(LeaveGroupRequest(self._group, members=[MemberIdentity(self._id)]))
        self._connection.close()


@attrs.define(eq=False)
class ConsumerMember:
    """Member of KIP-848."""

    _connection: MemberConnection
    _group: str
    _topic: str
    _interval: float
    _changed: Callable[[], None]
    owned: Partitions = frozenset()
    epoch: int = -1
    _id: str = attrs.field(factory=lambda: str(uuid.uuid4()))

    async def run(self) -> None:
        await self._beat(
            ConsumerGroupHeartbeatRequest(
                self._group,
                self._id,
                rebalance_timeout_ms=REBALANCE_MS,
                subscribed_topic_names=[self._topic],
                topic_partitions=[],
            )
        )
        while True:
            await asyncio.sleep(self._interval)
            await self._beat(ConsumerGroupHeartbeatRequest(self._group, self._id, self.epoch))

    async def _beat(self, request: ConsumerGroupHeartbeatRequest) -> None:
        answer = await self._connection.call(request)
        if answer.error_code:
            raise RuntimeError(f"the heartbeat is answered by {ErrorCode(answer.error_code).name}")
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            topics = answer.assignment.topic_partitions
            self.owned = frozenset((topic.topic_id, number) for topic in topics for number in topic.partitions)
            self._changed()
            owned = [OwnedTopicPartitions(topic.topic_id, topic.partitions) for topic in topics]
            await self._beat(ConsumerGroupHeartbeatRequest(self._group, self._id, self.epoch, topic_partitions=owned))
        self._changed()

    async def leave(self) -> None:
        await self._connection.call(ConsumerGroupHeartbeatRequest(self._group, self._id, -1))
        self._connection.close()
