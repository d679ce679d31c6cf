"""Fixtures of tests that run clusters."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.members import Maker
from tests.cluster.network import Network

NewCluster = Callable[..., Cluster]


@pytest.fixture
def new_cluster(tmp_path: Path, tree_chroot: str) -> Iterator[NewCluster]:
    """Makes a started cluster: `new_cluster(own, own, settings={...}, network=Network())`.

    Its coordination tree is on the run's own tree server, so that brokers of this project need no JVM.
    """
    with closing_clusters(tmp_path, tree_chroot) as make:
        yield make


@pytest.fixture
def new_cluster_on_zookeeper(tmp_path: Path, zookeeper_chroot: str) -> Iterator[NewCluster]:
    """Makes a started cluster, as `new_cluster` does, on the run's ZooKeeper."""
    with closing_clusters(tmp_path, zookeeper_chroot) as make:
        yield make


@contextmanager
def closing_clusters(directory: Path, chroot: str) -> Iterator[NewCluster]:
    """Make clusters on a chroot; kill their brokers in the end, whose logs must have no unexpected errors."""
    made: list[Cluster] = []
    with ExitStack() as stack:

        def make(*makers: Maker, settings: dict[str, str] | None = None, network: Network | None = None) -> Cluster:
            if network is not None:
                stack.callback(network.close)
            made.append(Cluster.make(directory / f"cluster-{len(made)}", chroot, makers, settings, network))
            return stack.enter_context(made[-1])

        yield make
    assert [lines for cluster in made for lines in cluster.errors.values() if lines] == []


@pytest.fixture(autouse=True)
def quiet_clients() -> Iterator[None]:
    """Clients log every connection that they lose."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)
