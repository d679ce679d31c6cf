"""Identities of brokers and clusters at a start."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred, maybeDeferred

from pylogbroker.config import BrokerConfig
from pylogbroker.errors import StartupError
from pylogbroker.storage import LogDirectories
from pylogbroker.tap.identification import identify
from tests.broker.trees import now, opened_tree


def in_thread(work: Callable[..., Any], *arguments: Any) -> Deferred[Any]:
    return maybeDeferred(work, *arguments)


def start(tree_directory: Path, logs: Path, **settings: str) -> tuple[int, str]:
    """Identify a broker; return its id and its cluster's."""
    for path in (tree_directory, logs):
        path.mkdir(exist_ok=True)
    named = {name.replace("_", "."): value for name, value in settings.items()}
    config = BrokerConfig({"log.dirs": str(logs), "broker.id": "1", **named})
    directories = LogDirectories([str(logs)])
    with opened_tree(str(tree_directory)) as tree:
        try:
            return now(identify(config, tree, directories, in_thread))
        finally:
            directories.unlock()


def test_data_of_a_cluster_is_not_taken_to_another_path_of_zookeeper(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    started = start(tmp_path / "right", logs, zookeeper_connect="zk/right")
    for _ in range(2):  # the first start has made a cluster there
        with pytest.raises(
            StartupError, match=rf"holds data of cluster {started[1]}, .* zookeeper.connect with its path"
        ):
            start(tmp_path / "wrong", logs, zookeeper_connect="zk/wrong")
    assert start(tmp_path / "right", logs, zookeeper_connect="zk/right") == started


def test_a_broker_that_is_alone_gives_a_new_tree_the_id_of_its_data(tmp_path: Path) -> None:
    started = start(tmp_path / "lost", tmp_path / "logs")
    assert start(tmp_path / "new", tmp_path / "logs") == started
