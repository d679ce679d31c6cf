"""Metrics of a member of a cluster of KRaft controllers: what it has read and applied of the metadata log."""

from __future__ import annotations

from pylogbroker.broker.assembly import Broker
from pylogbroker.metrics import families
from pylogbroker.metrics.exposition import Exposition


def collect_kraft(out: Exposition, broker: Broker) -> None:
    """Write nothing in other clusters."""
    member = broker.kraft
    if member is None:
        return
    published = member.published
    out.add(families.APPLIED_OFFSET, published.offset)
    out.add(families.APPLIED_TIMESTAMP, published.timestamp_ms)
    if published.timestamp_ms >= 0:
        out.add(families.APPLIED_LAG_MS, max(0, broker.runtime.now_ms() - published.timestamp_ms))
    out.add(families.METADATA_LOAD_ERRORS, published.load_errors)
    out.add(families.METADATA_APPLY_ERRORS, published.apply_errors)
    out.add(families.LOADED_SNAPSHOTS, published.snapshots)
    out.add(families.CURRENT_CONTROLLER, member.leader_id)
    levels = member.levels
    out.add(families.METADATA_VERSION, levels.get("metadata.version", 0))
    for name, level in sorted(levels.items()):
        out.add(families.FINALIZED_LEVEL, level, name)
    out.add(families.RAFT_LEADER, member.leader_id)
    out.add(families.RAFT_EPOCH, member.leader_epoch)
    out.add(families.RAFT_HIGH_WATERMARK, member.high_watermark)
    out.add(families.RAFT_LOG_END_OFFSET, member.log_end_offset)
    out.add(families.RAFT_STATE, 1, "observer")
    out.add(families.REGISTRATION_STATE, 1, member.state)
