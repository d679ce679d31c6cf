"""Remote storages of the brokers that have replicas of archived topics, as their settings say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from pylogbroker.errors import ErrorCode, KafkaError, PylogbrokerError
from pylogbroker.features import on_first_use

if TYPE_CHECKING:
    from pylogbroker.blocking.admin import BlockingAdmin
    from pylogbroker.client import admin as admin_api
else:
    admin_api = on_first_use("pylogbroker.client.admin")

_ENABLED: Final = "remote.log.storage.system.enable"
_ARCHIVED: Final = "remote.storage.enable"
_STORAGE: Final = "remote.log.storage"


def remote_storages(admin: BlockingAdmin, brokers: Iterable[int]) -> dict[int, str]:
    """Return the remote storage of each broker; empty if it has none. Those that cannot be asked are left out.

    Apache Kafka's brokers have none that this project's brokers could read.
    """
    storages = {}
    for broker in brokers:
        resource = admin_api.ConfigResource.broker(broker)
        try:
            configs = admin.configs.describe([resource], [_ENABLED, _STORAGE])[resource]
        except PylogbrokerError:  # it is down, or the client may not see its settings
            continue
        enabled, storage = configs.get(_ENABLED), configs.get(_STORAGE)
        is_enabled = enabled is not None and enabled.value == "true"
        storages[broker] = storage.value or "" if is_enabled and storage is not None else ""
    return storages


def check_hosts(admin: BlockingAdmin, topics: Iterable[str], brokers: Iterable[int]) -> None:
    """Raise KafkaError if an archived topic would get replicas on brokers without remote storage.

    Nothing is checked if the client may not see the settings.
    """
    try:
        configs = admin.configs.describe([admin_api.ConfigResource.topic(topic) for topic in topics], [_ARCHIVED])
    except PylogbrokerError:
        return
    archived = sorted(
        resource.name
        for resource, rows in configs.items()
        for row in rows.values()
        if row.name == _ARCHIVED and row.value == "true"
    )
    if archived:
        without = [str(broker) for broker, storage in remote_storages(admin, brokers).items() if not storage]
        if without:
            raise KafkaError(
                f"{', '.join(archived)}: archived, but broker(s) {', '.join(without)} have no remote storage: choose "
                f"others, or set {_STORAGE} there",
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            )


def problems(replicas: Iterable[int], storages: Mapping[int, str]) -> Iterator[str]:
    """Yield what is wrong with the brokers of an archived topic's replicas."""
    present = {broker: storages[broker] for broker in sorted(set(replicas)) if broker in storages}
    without = [broker for broker, storage in present.items() if not storage]
    if without:
        yield (
            f"archived, but broker(s) {', '.join(map(str, without))} have no remote storage: set {_STORAGE} there, or "
            "move the replicas with pylogbroker reassign"
        )
    named = {broker: storage for broker, storage in present.items() if storage}
    if len(set(named.values())) > 1:
        places = ", ".join(f"broker {broker} has {storage}" for broker, storage in named.items())
        yield f"all brokers need the same {_STORAGE}, perhaps under other names: {places}"
