"""Address of the schema registry that brokers of a cluster have, or name, for commands that are given none."""

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
_NAMED: Final = endpoint.URL
"""Setting of a broker with the address of a registry elsewhere."""
_PASSWORDS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


def with_cluster_registry(connection: Connection) -> Connection:
    """Return a connection that names a registry: by its settings, or else as brokers of the cluster have or name one.

    A user and a password of the brokers are those of their own registry, too.
    """
    if connection.registry.get(endpoint.URL):
        return connection
    own, named = _urls_of_cluster(connection)
    if own:
        return connection.with_settings({endpoint.URL: own, **_user(connection)})
    return connection.with_settings({endpoint.URL: named}) if named else connection


def _urls_of_cluster(connection: Connection) -> tuple[str, str]:
    """Return the address of the first broker that has a registry, or else of a registry that a broker names.

    They are empty if there is none, or if this user may not see it.
    """
    named = ""
    with connection.admin() as admin:
        brokers = sorted(admin.cluster.describe().brokers, key=lambda broker: broker.broker_id)[:_BROKERS_MAX]
        for broker in brokers:
            resource = client_admin.ConfigResource.broker(broker.broker_id)
            try:
                entries = admin.configs.describe([resource], [ADVERTISED, LISTENERS, _NAMED])[resource]
            except KafkaError:
                continue
            settings = {name: entry.value for name, entry in entries.items()}
            url = advertised_url(settings.get(ADVERTISED), settings.get(LISTENERS), broker.host)
            if url is not None:
                return url, ""
            named = named or settings.get(_NAMED) or ""
    return "", named


def _user(connection: Connection) -> dict[str, str]:
    settings = connection.given
    if settings.get("sasl.mechanism", "").upper() not in _PASSWORDS or endpoint.USER_INFO in connection.registry:
        return {}
    user, password = settings.get("sasl.username"), settings.get("sasl.password")
    return {endpoint.USER_INFO: f"{user}:{password}"} if user and password else {}
