"""Receivers of the metrics that clients push to a broker (KIP-714)."""

# ruff: noqa: N805  (the methods of an interface have no self)

from __future__ import annotations

from uuid import UUID

import attrs
from zope.interface import Attribute

from pylogbroker.interfaces.factories import INamed


@attrs.frozen
class ClientTelemetry:
    """Metrics that one client pushed at one time.

    `metrics` is a MetricsData message of OpenTelemetry's protocol (`opentelemetry.proto.metrics.v1`), decompressed. The
    client says its own name, `software` and `instance_id`; the broker knows its host and principal.
    """

    instance_id: UUID  # the same for the life of a client object
    client_id: str
    software: tuple[str, str] | None  # name and version, if the client has said them
    host: str
    principal: str  # "User:alice"
    is_last: bool  # the client closes
    received_ms: int  # milliseconds since 1970
    metrics: bytes


class IClientTelemetryReceiver(INamed):
    """Plugin of the broker that gets the metrics of clients (KIP-714).

    Define an instance, which also provides `twisted.plugin.IPlugin`, in a plugin module (see `pylogbroker.plugins`),
    and name it in the broker's setting `client.telemetry.receivers`. Without a receiver the broker does not offer
    telemetry, and clients send none.
    """

    metric_prefixes: tuple[str, ...] = Attribute(
        'Prefixes of the names of the wanted metrics, such as "org.apache.kafka.producer."; an empty one for all. '
        "Clients send what any receiver of the broker wants."
    )
    interval_ms: int = Attribute(
        "Wanted time between two pushes of a client, in milliseconds: 100 to 3,600,000. The shortest of all receivers "
        "holds."
    )

    def receive(telemetry: ClientTelemetry) -> None:
        """Take what a client pushed.

        Called in a worker thread, perhaps in several at once; may block. The client gets its answer when all receivers
        have returned. If the call fails, the broker logs why, at most once a minute, and the client gets no error.
        """
