"""The controllers of a KRaft cluster, and this broker as its member."""

from __future__ import annotations

from typing import TypedDict

from pylogbroker.broker.services import KraftMember
from pylogbroker.errors import PylogbrokerError
from pylogbroker.web.visitors import Visitor
from pylogbroker.wire.messages.describe_quorum import DescribeQuorumResponse, QuorumReplica


class QuorumNodeRow(TypedDict):
    """`role` is leader, voter or observer; `lag` counts the records that the node has not fetched."""

    node: int
    role: str
    address: str | None
    log_end_offset: int
    lag: int
    fetched_ms_ago: int | None


class FeatureRow(TypedDict):
    name: str
    level: int


class QuorumView(TypedDict):
    """`failure` says why the controllers do not answer; then `nodes` is empty.

    `state`, `broker_epoch`, `published_offset` and `behind` are those of this broker. `behind` is the number of
    committed records that it has not applied.
    """

    leader: int | None
    leader_epoch: int
    high_watermark: int
    failure: str | None
    nodes: list[QuorumNodeRow]
    state: str
    broker_epoch: int
    published_offset: int
    behind: int
    features: list[FeatureRow]


async def quorum(visitor: Visitor) -> QuorumView | None:
    """Return the controllers and this broker's state; None of a cluster without KRaft controllers."""
    member = visitor.services.kraft
    if member is None:
        return None
    failure, nodes = None, list[QuorumNodeRow]()
    try:
        nodes = _nodes(await member.described(), visitor.services.runtime.now_ms())
    except PylogbrokerError as error:
        failure = str(error)
    leader = next((node["node"] for node in nodes if node["role"] == "leader"), None)
    return {"leader": leader, "failure": failure, "nodes": nodes, **_of_member(member)}


class _MemberState(TypedDict):
    leader_epoch: int
    high_watermark: int
    state: str
    broker_epoch: int
    published_offset: int
    behind: int
    features: list[FeatureRow]


def _of_member(member: KraftMember) -> _MemberState:
    return {
        "leader_epoch": member.leader_epoch,
        "high_watermark": member.high_watermark,
        "state": member.state,
        "broker_epoch": member.broker_epoch,
        "published_offset": member.published.offset,
        "behind": max(0, member.high_watermark - 1 - member.published.offset),
        "features": [{"name": name, "level": level} for name, level in sorted(member.levels.items())],
    }


def _nodes(answer: DescribeQuorumResponse, now_ms: int) -> list[QuorumNodeRow]:
    partition = answer.topics[0].partitions[0]
    addresses = {
        node.node_id: f"{node.listeners[0].host}:{node.listeners[0].port}" for node in answer.nodes if node.listeners
    }
    leader = partition.leader_id
    end = max((voter.log_end_offset for voter in partition.current_voters if voter.replica_id == leader), default=0)

    def row(replica: QuorumReplica, role: str) -> QuorumNodeRow:
        fetched = replica.last_fetch_timestamp
        return {
            "node": replica.replica_id,
            "role": role,
            "address": addresses.get(replica.replica_id),
            "log_end_offset": replica.log_end_offset,
            "lag": max(0, end - replica.log_end_offset),
            "fetched_ms_ago": None if fetched < 0 else max(0, now_ms - fetched),
        }

    voters = [row(voter, "leader" if voter.replica_id == leader else "voter") for voter in partition.current_voters]
    return voters + [row(observer, "observer") for observer in partition.observers]
