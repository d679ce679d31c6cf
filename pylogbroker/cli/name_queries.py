"""Names that a cluster has, for completion: few requests, and no reactor, whose import takes longer than they do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from pylogbroker.blocking.cluster import BlockingCluster
from pylogbroker.blocking.connection import BlockingConnection, dial
from pylogbroker.client import settings as client_settings
from pylogbroker.rpc.settings import Address
from pylogbroker.wire.messages.metadata import MetadataRequest, MetadataResponse

NamesOf = Callable[[BlockingCluster], list[str]]


def names(settings: Mapping[str, str], seconds: float, names_of: NamesOf) -> list[str]:
    """Return names in order; raise PylogbrokerError if brokers do not answer in time."""
    limit = str(round(seconds * 1000))
    limits = ("default.api.timeout.ms", "request.timeout.ms", "socket.connection.setup.timeout.ms")
    values = client_settings.read(client_settings.CLIENT, {**settings, **dict.fromkeys(limits, limit)})
    with BlockingCluster(values) as cluster:
        return sorted(names_of(cluster))


def topics(cluster: BlockingCluster) -> list[str]:
    response: MetadataResponse = cluster.any_connection().ask(MetadataRequest(topics=None))
    return [topic.name for topic in response.topics if topic.name and not topic.is_internal]


def brokers(cluster: BlockingCluster) -> list[str]:
    response: MetadataResponse = cluster.any_connection().ask(MetadataRequest(topics=[]))
    return [str(broker.node_id) for broker in response.brokers]


def connections(cluster: BlockingCluster) -> Iterator[BlockingConnection]:
    """Yield a connection to each broker, for names that are spread over them."""
    response: MetadataResponse = cluster.any_connection().ask(MetadataRequest(topics=[]))
    for broker in response.brokers:
        connection = dial(Address(broker.host, broker.port), cluster.connection_settings)
        try:
            yield connection
        finally:
            connection.close()
