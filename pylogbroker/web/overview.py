"""The overview: problems, traffic of the last hour, brokers with their disks, the busiest topics and most lag."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from typing import Final, TypedDict

from pylogbroker.security.acls.bindings import CLUSTER_NAME, AclOperation, AclResourceType
from pylogbroker.web.charts import Chart, count_chart, rate_chart
from pylogbroker.web.cluster_views import BrokerList, cluster
from pylogbroker.web.problem_search import problems_for
from pylogbroker.web.problems import LastingProblem
from pylogbroker.web.topic_table import ListedTopic, TopicLags, listed_topic, visible_lags
from pylogbroker.web.traffic_history import TrafficSample
from pylogbroker.web.visitors import Visitor

_LISTED: Final = 5


class LaggingGroup(TypedDict):
    id: str
    lag: int
    history: Sequence[float | None]
    growth: int | None


class Overview(TypedDict):
    problems: Sequence[LastingProblem]
    looked_ms: int
    now_ms: int
    topics: int
    partitions: int | None
    clients: str
    messages_in: float | None
    bytes_in: float | None
    bytes_out: float | None
    traffic: Chart
    rates: Mapping[int, TrafficSample]
    without: list[int]
    total_lag: int | None
    lag: Chart | None
    cluster: BrokerList | None
    busiest: list[ListedTopic]
    most_lag: list[LaggingGroup]


async def overview(visitor: Visitor) -> Overview:
    """Return what somebody looks at first; the brokers are null for a visitor who may not describe the cluster.

    Rates are the sums of all brokers but those in `without`; `rates` has those of each broker that is known.
    """
    services, samples = visitor.services, visitor.samples
    sees_cluster = visitor.allows(AclOperation.DESCRIBE, AclResourceType.CLUSTER, CLUSTER_NAME)
    seen_cluster = await cluster(visitor, with_logs=False) if sees_cluster else None
    of_all = samples.cluster_traffic
    history = list(of_all.samples or samples.traffic.samples)
    last = history[-1] if history else None
    lags = await visible_lags(visitor)
    rates = {name: rate for name, rate in samples.topic_rates.noted.items() if visitor.sees_topic(name)}
    busiest = heapq.nlargest(_LISTED, rates, key=lambda name: rates[name])
    images = [topic for topic in map(services.metadata.topics.get, busiest) if topic is not None]
    rows = seen_cluster["brokers"] if seen_cluster else ()
    listeners = [listener for broker in rows for listener in broker["listeners"]]
    return {
        "problems": problems_for(visitor),
        "looked_ms": samples.problems.looked_ms,
        "now_ms": services.runtime.now_ms(),
        "topics": len(services.metadata.topics),
        "partitions": sum(broker["leaders"] for broker in rows) if seen_cluster else None,
        "clients": listeners[0]["address"] if listeners else "",
        "messages_in": None if last is None else last.messages_in,
        "bytes_in": None if last is None else last.bytes_in,
        "bytes_out": None if last is None else last.bytes_out,
        "traffic": rate_chart(
            [sample.time_ms for sample in history],
            [sample.bytes_in for sample in history],
            [sample.bytes_out for sample in history],
        ),
        "rates": of_all.rates or ({} if last is None else {services.node.id: last}),
        "without": of_all.unknown(services.metadata.image.brokers),
        **_total_lag(visitor),
        "cluster": seen_cluster,
        "busiest": [await listed_topic(visitor, topic, lags) for topic in images],
        "most_lag": _most_lag(visitor, lags),
    }


class _TotalLag(TypedDict):
    total_lag: int | None
    lag: Chart | None


def _total_lag(visitor: Visitor) -> _TotalLag:
    """Return the lag of all groups of this broker, and its chart; the chart is null for visitors who do not see all."""
    lags = visitor.samples.group_lags
    if visitor.context.access is not None:
        topics = {topic for pace in lags.paces.values() for topic in pace.topics}
        if not all(map(visitor.sees_group, lags.paces)) or not all(map(visitor.sees_topic, topics)):
            return {"total_lag": None, "lag": None}
    samples = lags.totals
    drawn = count_chart([sample.time_ms for sample in samples], [sample.lag for sample in samples])
    return {"total_lag": samples[-1].lag if samples else None, "lag": drawn}


def _most_lag(visitor: Visitor, visible: TopicLags) -> list[LaggingGroup]:
    """Return the groups of this broker that have most lag in topics that the visitor may see."""
    lags = visitor.samples.group_lags
    totals: dict[str, int] = {}
    for topic, by_group in visible.items():
        for group_id, lag in by_group.items() if visitor.sees_topic(topic) else ():
            totals[group_id] = totals.get(group_id, 0) + lag
    largest = heapq.nlargest(_LISTED, totals, key=lambda group_id: totals[group_id])
    return [
        {
            "id": group_id,
            "lag": totals[group_id],
            "history": lags.sparse(group_id) if visitor.sees_samples_of(group_id) else (),
            "growth": lags.growth_a_minute(group_id) if visitor.sees_samples_of(group_id) else None,
        }
        for group_id in largest
        if totals[group_id]
    ]
