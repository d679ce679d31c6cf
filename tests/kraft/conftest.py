"""A cluster in memory, whose controller is a model."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pylogbroker.testing.memory_network import MemoryReactor
from tests.kraft.model_controller import ModelController
from tests.kraft.test_members import CONTROLLER, Cluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    reactor = MemoryReactor(now=1_000_000.0)
    controller = ModelController(reactor, CONTROLLER)
    reactor.listen("127.0.0.1", CONTROLLER, controller.factory)
    made = Cluster(reactor, tmp_path, controller)
    yield made
    for number in list(made.services):
        made.stop(number)
