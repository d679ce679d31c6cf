"""Address of the schema registry that brokers of a cluster have, for commands that are given none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pylogbroker.cli.cluster_options import Connection
from pylogbroker.errors import KafkaError
from pylogbroker.features import on_first_use
from pylogbroker.schemas import endpoint
from pylogbroker.schemas.registry_address import ADVERTISED, LISTENERS, advertised_url

if TYPE_CHECKING:
    from pylogbroker.client import admin as client_admin
else:
    client_admin = on_first_use("pylogbroker.client.admin")

_BROKERS_MAX: Final = 5
"""Brokers that are asked: each one that has a registry answers for all."""
_PASSWORDS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


def with_cluster_registry(connection: Connection) -> Connection:
    """Return a connection that names a registry: by its settings, or else as brokers of the cluster have one.

    A user and a password of the brokers are those of their registry, too.
    """
    if connection.registry.get(endpoint.URL):
        return connection
    url = _url_of_cluster(connection)
    if url is None:
        return connection
    return connection.with_settings({endpoint.URL: url, **_user(connection)})


def _url_of_cluster(connection: Connection) -> str | None:
    """Return the address of the first broker that has a registry, None if none has, or this user may not see it."""
    with connection.admin() as admin:
        brokers = sorted(admin.cluster.describe().brokers, key=lambda broker: broker.broker_id)[:_BROKERS_MAX]
        for broker in brokers:
            resource = client_admin.ConfigResource.broker(broker.broker_id)
            try:
                entries = admin.configs.describe([resource], [ADVERTISED, LISTENERS])[resource]
            except KafkaError:
                continue
            settings = {name: entry.value for name, entry in entries.items()}
            url = advertised_url(settings.get(ADVERTISED), settings.get(LISTENERS), broker.host)
            if url is not None:
                return url
    return None


def _user(connection: Connection) -> dict[str, str]:
    settings = connection.given
    if settings.get("sasl.mechanism", "").upper() not in _PASSWORDS or endpoint.USER_INFO in connection.registry:
        return {}
    user, password = settings.get("sasl.username"), settings.get("sasl.password")
    return {endpoint.USER_INFO: f"{user}:{password}"} if user and password else {}
