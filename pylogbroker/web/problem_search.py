"""Search for problems of the cluster, by a timer: what is wrong, and what to do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Final

from pylogbroker.broker.services import Services
from pylogbroker.errors import PylogbrokerError
from pylogbroker.metadata.image import NO_LEADER
from pylogbroker.security.acls.bindings import CLUSTER_NAME, AclOperation, AclResourceType
from pylogbroker.web.formats import count_text, duration_text, size_text
from pylogbroker.web.group_lags import GroupLags
from pylogbroker.web.problems import ClusterProblem, LastingProblem
from pylogbroker.web.responsible_brokers import ask_all
from pylogbroker.web.transaction_views import OPEN_STATES
from pylogbroker.web.visitors import Visitor
from pylogbroker.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from pylogbroker.wire.messages.list_transactions import ListTransactionsRequest

INTERVAL_SECONDS: Final = 20.0
_FULL_SHARE: Final = 0.9
_OPEN_MS_MAX: Final = 10 * 60_000
"""How long a transaction is open before it is a problem."""
_GROWTH_SAMPLES: Final = 20
_LAG_MIN: Final = 1000


async def look(visitor: Visitor) -> None:
    """Note the problems, as a visitor who may see everything."""
    samples = visitor.samples
    problems = [problem async for problem in _problems(visitor, samples.group_lags)]
    samples.problems.note(problems, visitor.services.runtime.now_ms())


def problems_for(visitor: Visitor) -> list[LastingProblem]:
    """Return the problems of what the visitor may see."""
    lasting = visitor.samples.problems.lasting(visitor.services.runtime.now_ms())
    return [shown for shown in lasting if _may_see(visitor, shown.problem)]


def _may_see(visitor: Visitor, problem: ClusterProblem) -> bool:
    kinds = {
        "topic": AclResourceType.TOPIC,
        "transaction": AclResourceType.TRANSACTIONAL_ID,
    }
    kind = kinds.get(problem.kind)
    if problem.kind == "group":
        return visitor.sees_samples_of(problem.subject)
    return visitor.allows(
        AclOperation.DESCRIBE, kind or AclResourceType.CLUSTER, problem.subject if kind else CLUSTER_NAME
    )


async def _problems(visitor: Visitor, lags: GroupLags) -> AsyncIterator[ClusterProblem]:
    async for problem in _of_controllers(visitor.services):
        yield problem
    async for problem in _of_disks(visitor):
        yield problem
    async for problem in _of_partitions(visitor.services):
        yield problem
    for group_id, (before, now) in lags.growing(_GROWTH_SAMPLES, _LAG_MIN).items():
        a_minute = (now - before) * 2 // _GROWTH_SAMPLES
        detail = f"Its lag is {count_text(now)} records, {count_text(a_minute)} more a minute."
        yield ClusterProblem("group", group_id, True, f"Group {group_id} falls behind", detail)
    async for problem in _of_transactions(visitor):
        yield problem


async def _of_controllers(services: Services) -> AsyncIterator[ClusterProblem]:
    if services.kraft is None:
        return
    try:
        await services.kraft.described()
    except PylogbrokerError as error:
        detail = f"Topics cannot be changed, and no leaders are elected. Start the controllers: {error}."
        yield ClusterProblem("controller", "controllers", True, "No KRaft controller answers this broker", detail)


async def _of_disks(visitor: Visitor) -> AsyncIterator[ClusterProblem]:
    for broker_id, answer in (await ask_all(visitor, DescribeLogDirsRequest([]))).items():
        if answer is None:
            detail = "What it leads has other leaders, or none. Look whether its process runs, and what it logged last."
            yield ClusterProblem("disk", f"broker {broker_id}", True, f"Broker {broker_id} does not answer", detail)
            continue
        for directory in answer.results:
            where = f"Broker {broker_id}: {directory.log_dir}"
            if directory.error_code:
                detail = "Its replicas are offline. Repair the disk, and start the broker again."
                yield ClusterProblem("disk", where, True, f"{where} is offline", detail)
            elif directory.total_bytes > 0 and directory.usable_bytes <= (1 - _FULL_SHARE) * directory.total_bytes:
                share = 100 - 100 * directory.usable_bytes // directory.total_bytes
                detail = f"{size_text(directory.usable_bytes)} of {size_text(directory.total_bytes)} are free. Without "
                detail += "space the broker stops to write. Shorten the retention of topics, or free space."
                yield ClusterProblem("disk", where, share >= 95, f"{where} is {share} % full", detail)


async def _of_partitions(services: Services) -> AsyncIterator[ClusterProblem]:
    async for topic in services.runtime.slices.over(tuple(services.metadata.topics.values())):
        states = topic.partitions.values()
        offline = [index for index, state in topic.partitions.items() if state.leader == NO_LEADER]
        if offline:
            title = f"{topic.name} has {_partitions(offline)} without a leader"
            detail = "Clients can neither write nor read there. Start the brokers that have the replicas."
            yield ClusterProblem("topic", topic.name, True, title, detail)
            continue
        behind = [state for state in states if not state.adding and len(state.isr) < len(state.replicas)]
        if behind:
            missing = sorted({broker for state in behind for broker in state.replicas if broker not in state.isr})
            title = f"{len(behind)} of {len(states)} partitions of {topic.name} have replicas that are not in sync"
            detail = f"Missing: broker {', '.join(map(str, missing))}. Start it, or wait until it has caught up."
            yield ClusterProblem("topic", topic.name, False, title, detail)


def _partitions(indexes: Sequence[int]) -> str:
    shown = ", ".join(map(str, indexes[:5]))
    more = f" and {len(indexes) - 5} more" if len(indexes) > 5 else ""
    return f"partition {shown}{more}" if len(indexes) == 1 else f"partitions {shown}{more}"


async def _of_transactions(visitor: Visitor) -> AsyncIterator[ClusterProblem]:
    request = ListTransactionsRequest([*OPEN_STATES], [], _OPEN_MS_MAX)
    for answer in (await ask_all(visitor, request)).values():
        for listed in () if answer is None else answer.transaction_states:
            detail = f"For more than {duration_text(_OPEN_MS_MAX)}. Readers of committed records wait for its end."
            title = f"Transaction {listed.transactional_id} is open"
            yield ClusterProblem("transaction", listed.transactional_id, False, title, detail)
