from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient

from pylogbroker.schemas.blocking import blocking_client
from pylogbroker.schemas.endpoint import URL, RegistryEndpoint
from pylogbroker.schemas.registry_client import RegistryClient
from pylogbroker.testing import Broker


@pytest.fixture(scope="module")
def registry() -> Iterator[str]:
    """URL of a schema registry."""
    with Broker(schema_registry=True) as broker:
        yield broker.schema_registry.url


@pytest.fixture
def theirs(registry: str) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": registry})


@pytest.fixture
def ours(registry: str) -> RegistryClient:
    endpoint = RegistryEndpoint.of({URL: registry})
    assert endpoint is not None
    return blocking_client(endpoint)
