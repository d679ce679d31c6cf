"""Clusters and topics of Confluent's REST API v3: what its clients look up before they write."""

from __future__ import annotations

from typing import Final, TypedDict

from pylogbroker.security.acls.bindings import AclOperation, AclResourceType
from pylogbroker.web.parameters import Name
from pylogbroker.web.records_api.calls import HttpCall
from pylogbroker.web.records_api.errors import Rejected
from pylogbroker.web.visitors import Visitor

TOPICS_MAX: Final = 10_000
PREFIXES: Final = ("/v3", "/kafka/v3")


def check_cluster(visitor: Visitor, cluster_id: str) -> None:
    own = visitor.services.node.cluster_id
    if cluster_id != own:
        raise Rejected(404, f"Cluster {cluster_id} cannot be found: this is {own}")


class ConfluentCluster(TypedDict):
    """The cluster of this broker."""

    kind: str
    metadata: dict[str, str]
    cluster_id: str
    topics: dict[str, str]


class ConfluentTopic(TypedDict):
    """A topic."""

    kind: str
    metadata: dict[str, str]
    cluster_id: str
    topic_name: str
    is_internal: bool
    replication_factor: int
    partitions_count: int
    records: dict[str, str]


class ConfluentClusters(TypedDict):
    """The cluster of this broker, as a list."""

    kind: str
    metadata: dict[str, str | None]
    data: list[ConfluentCluster]


class ConfluentTopics(TypedDict):
    """Topics that the visitor may see."""

    kind: str
    metadata: dict[str, str | None]
    data: list[ConfluentTopic]


async def confluent_clusters(call: HttpCall) -> None:
    """Return the cluster of this broker."""
    values: ConfluentClusters = {
        "kind": "KafkaClusterList",
        "metadata": {"self": _address(call, "clusters"), "next": None},
        "data": [_cluster(call)],
    }
    await call.answer(200, values)


async def confluent_cluster(call: HttpCall, cluster_id: Name) -> None:
    """Return the cluster of this broker by its id."""
    check_cluster(call.visitor, cluster_id)
    await call.answer(200, _cluster(call))


async def confluent_topics(call: HttpCall, cluster_id: Name) -> None:
    """Return the topics that the visitor may see."""
    check_cluster(call.visitor, cluster_id)
    visitor = call.visitor
    over = visitor.services.runtime.slices.over
    names = [name async for name in over(sorted(visitor.services.metadata.topics)) if visitor.sees_topic(name)]
    rows = [_topic(call, name) async for name in over(names[:TOPICS_MAX])]
    values: ConfluentTopics = {
        "kind": "KafkaTopicList",
        "metadata": {"self": _address(call, f"clusters/{cluster_id}/topics"), "next": None},
        "data": rows,
    }
    await call.answer(200, values, len(rows))


async def confluent_topic(call: HttpCall, cluster_id: Name, topic_name: Name) -> None:
    """Return a topic."""
    check_cluster(call.visitor, cluster_id)
    call.visitor.check(AclOperation.DESCRIBE, AclResourceType.TOPIC, topic_name)
    await call.answer(200, _topic(call, topic_name))


def _cluster(call: HttpCall) -> ConfluentCluster:
    cluster_id = call.visitor.services.node.cluster_id
    return {
        "kind": "KafkaCluster",
        "metadata": {
            "self": _address(call, f"clusters/{cluster_id}"),
            "resource_name": f"crn:///kafka={cluster_id}",
        },
        "cluster_id": cluster_id,
        "topics": {"related": _address(call, f"clusters/{cluster_id}/topics")},
    }


def _topic(call: HttpCall, name: str) -> ConfluentTopic:
    cluster_id = call.visitor.services.node.cluster_id
    image = call.visitor.services.metadata.require_topic(name)
    address = _address(call, f"clusters/{cluster_id}/topics/{name}")
    return {
        "kind": "KafkaTopic",
        "metadata": {"self": address, "resource_name": f"crn:///kafka={cluster_id}/topic={name}"},
        "cluster_id": cluster_id,
        "topic_name": name,
        "is_internal": image.internal,
        "replication_factor": image.replication_factor,
        "partitions_count": len(image.partitions),
        "records": {"related": f"{address}/records"},
    }


def _address(call: HttpCall, path: str) -> str:
    own = call.request.path.decode("ascii", "replace")
    prefix = next(prefix for prefix in reversed(PREFIXES) if own.startswith(f"{prefix}/"))
    return f"http://{call.header('host')}{prefix}/{path}"
