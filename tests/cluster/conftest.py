"""Fixtures of tests that run clusters."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.members import Maker
from tests.cluster.network import Network


@pytest.fixture
def new_cluster(tmp_path: Path, zookeeper_chroot: str) -> Iterator[Callable[..., Cluster]]:
    """Makes a started cluster on the test's chroot: `new_cluster(apache, own, settings={...}, network=Network())`."""
    made: list[Cluster] = []
    with ExitStack() as stack:

        def make(*makers: Maker, settings: dict[str, str] | None = None, network: Network | None = None) -> Cluster:
            directory = tmp_path / f"cluster-{len(made)}"
            if network is not None:
                stack.callback(network.close)
            made.append(Cluster.make(directory, zookeeper_chroot, makers, settings, network))
            return stack.enter_context(made[-1])

        yield make
    assert [lines for cluster in made for lines in cluster.errors.values() if lines] == []


@pytest.fixture(autouse=True)
def quiet_clients() -> Iterator[None]:
    """Clients log every connection that they lose."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)
