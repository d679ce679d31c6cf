"""Heartbeats of share groups (KIP-932): as in groups of KIP-848, but nobody waits for revocations."""

from __future__ import annotations

import attrs

from pylogbroker.client.cluster import Cluster
from pylogbroker.client.consumer.actions import SendEpochHeartbeat
from pylogbroker.client.consumer.epoch_member import EpochHeartbeatAnswer
from pylogbroker.client.consumer.group_heartbeats import assigned_partitions
from pylogbroker.rpc.errors import raise_for
from pylogbroker.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse


@attrs.frozen
class ShareGroupHeartbeats:
    _cluster: Cluster
    _group: str
    _rack: str | None
    unsupported: str = (
        "this broker does not offer share groups (KIP-932), as Kafka from 4.2 on and pylogbroker do unless the feature"
        " share.version has level 0"
    )

    async def send(self, node: int, beat: SendEpochHeartbeat, timeout: float) -> EpochHeartbeatAnswer:
        request = ShareGroupHeartbeatRequest(self._group, beat.member_id, beat.epoch)
        if beat.is_full:
            request.rack_id = self._rack
        if beat.subscription is not None:
            request.subscribed_topic_names = sorted(beat.subscription.names)
        response: ShareGroupHeartbeatResponse = await self._cluster.send(node, request, timeout=timeout)
        raise_for(response.error_code, response.error_message or self._group)
        assignment = response.assignment
        return EpochHeartbeatAnswer(
            response.member_epoch,
            response.heartbeat_interval_ms,
            None if assignment is None else assigned_partitions(assignment.topic_partitions),
            response.member_id,
        )
