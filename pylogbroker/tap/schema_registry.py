"""The schema registry in the life of a broker: it begins when the broker serves, and ends before it stops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pylogbroker.broker.assembly import Broker
from pylogbroker.extras import required_by
from pylogbroker.features import on_first_use

if TYPE_CHECKING:
    from pylogbroker.registry import service
    from pylogbroker.registry.service import RegistryService
else:
    service = on_first_use("pylogbroker.registry.service")


def check_registry() -> None:
    """Import the registry, which takes long; raise MissingExtra if libraries are missing. Blocks."""
    with required_by("schema.registry.listeners"):
        _ = service.RegistryService


async def validate_records(registry: RegistryService, broker: Broker) -> None:
    """Let the registry validate the records of topics whose settings say so."""
    await broker.partitions.settings.check_records(registry.record_checks)


def make_registry(reactor: Any, broker: Broker) -> RegistryService:
    return service.RegistryService(reactor, broker)
