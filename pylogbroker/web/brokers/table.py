"""The table of brokers, one broker, and one of its log directories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypedDict

from pylogbroker import __version__
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.metadata.image import NO_CONTROLLER
from pylogbroker.rpc.errors import raise_for
from pylogbroker.security.acls.bindings import AclOperation, AclResourceType
from pylogbroker.web.brokers.reassignments import count_reassignments
from pylogbroker.web.changes import after_others
from pylogbroker.web.cluster_views import BrokerList, BrokerRow, cluster
from pylogbroker.web.log_directory_views import LogDirectoryRow, LogRow, directory_with_logs
from pylogbroker.web.paging import Paged, PageNumber, paged
from pylogbroker.web.parameters import Index
from pylogbroker.web.placement import Placement, count_placement
from pylogbroker.web.quorum_views import QuorumView
from pylogbroker.web.responsible_brokers import controller_of
from pylogbroker.web.visitors import Visitor
from pylogbroker.wire.messages.elect_leaders import ElectLeadersRequest

_BEHIND_SHOWN: Final = 200
_NOT_NEEDED: Final = (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED)


class BrokerLine(BrokerRow):
    """`state` is in words; rates and the version are known of brokers of pylogbroker."""

    state: str
    behind: int
    directories: list[LogDirectoryRow]
    bytes_in: float | None
    bytes_out: float | None
    version: str | None


class BrokerTable(TypedDict):
    this_broker: int
    controller: int | None
    brokers: list[BrokerLine]
    quorum: QuorumView | None
    not_preferred: int
    reassignments: int | None


class BehindPartition(TypedDict):
    topic: str
    partition: int
    leader: int
    in_sync: list[int]


class BrokerPage(TypedDict):
    """`behind` has the first replicas that are not in sync, of topics that the visitor may see."""

    this_broker: int
    controller: int | None
    broker: BrokerLine
    behind: list[BehindPartition]


class DirectoryPage(LogDirectoryRow, Paged):
    details: Sequence[LogRow]


class ElectedLeaders(TypedDict):
    elected: int


async def broker_table(visitor: Visitor) -> BrokerTable:
    """Return the brokers: those that are registered, and those that have replicas but are not there."""
    return await _table(visitor, with_logs=False)


async def _table(visitor: Visitor, with_logs: bool) -> BrokerTable:
    brokers, placement = await cluster(visitor, with_logs), await count_placement(visitor.services)
    return {
        "this_broker": brokers["this_broker"],
        "controller": _controller(brokers),
        "brokers": _lines(visitor, brokers, placement),
        "quorum": brokers["quorum"],
        "not_preferred": len(placement.not_preferred),
        "reassignments": None if _are_silent(brokers["quorum"]) else await count_reassignments(visitor),
    }


def _are_silent(quorum: QuorumView | None) -> bool:
    """Return whether no controller answers now: other questions would wait for it."""
    return quorum is not None and quorum["failure"] is not None


def _controller(brokers: BrokerList) -> int | None:
    return None if brokers["controller"] == NO_CONTROLLER else brokers["controller"]


def _lines(visitor: Visitor, brokers: BrokerList, placement: Placement) -> list[BrokerLine]:
    registered = {row["id"]: row for row in brokers["brokers"]}
    lines = []
    for broker_id in sorted({brokers["this_broker"], *registered, *placement.replicas}):
        row = registered.get(broker_id)
        state = "does not answer" if broker_id in brokers["unanswered"] else "serving"
        if row is None:
            state = "not registered yet" if broker_id == brokers["this_broker"] else "gone"
        listed = row or BrokerRow(
            id=broker_id, rack=None, leaders=0, replicas=placement.replicas[broker_id], listeners=[]
        )
        lines.append(_line(visitor, listed, state, placement, brokers["log_directories"]))
    return lines


def _line(
    visitor: Visitor, row: BrokerRow, state: str, placement: Placement, directories: list[LogDirectoryRow]
) -> BrokerLine:
    is_this = row["id"] == visitor.services.node.id
    samples, of_all = visitor.samples.traffic.samples, visitor.samples.cluster_traffic
    last = samples[-1] if samples and is_this else of_all.rates.get(row["id"])
    return {
        **row,
        "state": state,
        "behind": placement.behind[row["id"]],
        "directories": [directory for directory in directories if directory["broker"] == row["id"]],
        "bytes_in": None if last is None else last.bytes_in,
        "bytes_out": None if last is None else last.bytes_out,
        "version": f"pylogbroker {__version__}" if is_this else of_all.software.get(row["id"]),
    }


async def broker_page(visitor: Visitor, broker: Index) -> BrokerPage:
    """Return a broker, with partitions that it does not have in sync; raise KafkaError."""
    table = await _table(visitor, with_logs=True)
    line = next((line for line in table["brokers"] if line["id"] == broker), None)
    if line is None:
        raise KafkaError(f"there is no broker {broker}", ErrorCode.RESOURCE_NOT_FOUND)
    behind = [] if not line["behind"] else await _behind(visitor, broker)
    return {
        "this_broker": table["this_broker"],
        "controller": table["controller"],
        "broker": line,
        "behind": behind,
    }


async def _behind(visitor: Visitor, broker: int) -> list[BehindPartition]:
    rows: list[BehindPartition] = []
    topics = tuple(visitor.services.metadata.image.topics.values())
    async for topic in visitor.services.runtime.slices.over(topics):
        if not visitor.sees_topic(topic.name):
            continue
        for index, state in topic.partitions.items():
            if broker in state.replicas and broker not in (*state.isr, *state.adding) and len(rows) < _BEHIND_SHOWN:
                in_sync = [*state.isr]
                rows.append({"topic": topic.name, "partition": index, "leader": state.leader, "in_sync": in_sync})
    return rows


async def directory_page(visitor: Visitor, broker: Index, path: str, page: PageNumber = 1) -> DirectoryPage:
    """Return a page of the logs in a directory of a broker, the largest first."""
    row, logs = await directory_with_logs(visitor, broker, path)
    values, shown = paged(page, "", logs)
    return {**row, **values, "details": shown}


async def elect_leaders(visitor: Visitor) -> ElectedLeaders:
    """Let the preferred replicas lead again, where they are in sync."""
    visitor.check(AclOperation.ALTER, AclResourceType.CLUSTER)
    answer = await visitor.ask(ElectLeadersRequest(0, None), controller_of(visitor.services))
    raise_for(answer.error_code)
    results = [(topic.topic, row) for topic in answer.replica_election_results for row in topic.partition_result]
    elected = sum(row.error_code == ErrorCode.NONE for _, row in results)
    with after_others(elected):
        for topic, row in results:
            if row.error_code not in _NOT_NEEDED:
                raise_for(row.error_code, f"{topic}-{row.partition_id}: {row.error_message}")
    return {"elected": elected}
