"""pytest plugin for kazoo's own tests: this project's server stands in for their ZooKeeper cluster.

kazoo's tests import modules for which there is no need here: certificates (jks, OpenSSL) and objgraph, of which they
use one function.
"""

from __future__ import annotations

import gc
import os
import sys
import tempfile
from pathlib import Path
from types import ModuleType

from tests.tree.tree_server import TreeServer

os.environ["ZOOKEEPER_VERSION"] = "3.8.0"
for _name in ("jks", "OpenSSL", "objgraph"):
    sys.modules.setdefault(_name, ModuleType(_name))


def _count(name: str) -> int:
    gc.collect()
    return sum(type(each).__name__ == name for each in gc.get_objects())


sys.modules["objgraph"].count = _count  # type: ignore[attr-defined]

from kazoo.testing import harness  # noqa: E402


class _Member(TreeServer):
    """A server by the names that kazoo's tests use."""

    run = TreeServer.start

    def stop(self) -> list[str]:
        return super().stop()


class _Cluster(list[_Member]):
    def start(self) -> None:
        for member in self:
            member.start()

    def stop(self) -> None:
        """Go on: each class of tests stops the cluster, and the next starts it."""

    terminate = stop

    def get_logs(self) -> list[str]:
        return []


_cluster = _Cluster([_Member(Path(tempfile.mkdtemp()))])
harness.get_global_cluster = lambda: _cluster


def pytest_unconfigure() -> None:
    for member in _cluster:
        member.kill()
