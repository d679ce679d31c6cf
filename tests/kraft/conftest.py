"""A cluster in memory, whose controller is a model."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pylogbroker.testing.memory_network import MemoryReactor
from tests.kraft.model_controller import ModelController
from tests.kraft.test_members import CONTROLLER, Cluster


@pytest.fixture
def cluster(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Make a cluster; a parameter has the features of its controller."""
    reactor = MemoryReactor(now=1_000_000.0)
    controller = ModelController(reactor, CONTROLLER)
    if hasattr(request, "param"):
        controller = ModelController(reactor, CONTROLLER, levels=request.param)
    reactor.listen("127.0.0.1", CONTROLLER, controller.factory)
    made = Cluster(reactor, tmp_path, controller)
    yield made
    for number in list(made.services):
        made.stop(number)
