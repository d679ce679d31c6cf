"""Exclusive access to a stopped broker's files.

    with stopped_broker(config) as broker:
        broker.topics()
        with broker.loaded_logs(print) as logs:
            ...

Opening fails and claims directories as a broker's start does.
"""

from __future__ import annotations

import os
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from math import inf
from typing import Any, TypeVar

import attrs
from twisted.internet.defer import maybeDeferred
from twisted.internet.task import Clock

from pylogbroker.broker.metadata.cluster_metadata import ClusterMetadata
from pylogbroker.broker.partitions.log_config import log_config
from pylogbroker.broker.runtime.slices import Slices
from pylogbroker.broker.sole.controller import LocalController
from pylogbroker.config import BrokerConfig
from pylogbroker.errors import PylogbrokerError, StartupError
from pylogbroker.interfaces import ITree
from pylogbroker.metadata.image import TopicImage
from pylogbroker.metadata.zk_image import read_image
from pylogbroker.storage import Log, LogConfig, LogManager, load_logs
from pylogbroker.storage.checkpoints import TopicPartition
from pylogbroker.storage.logdirs.inventory import Report
from pylogbroker.tap import preflight
from pylogbroker.tap.identification import identify
from pylogbroker.tree.embedded import EmbeddedTree

T = TypeVar("T")


def check_stopped(config: BrokerConfig) -> None:
    """Raise StartupError if a broker runs on these directories, or they are not its own. Creates nothing."""
    preflight.check(config)


def check_own_metadata(config: BrokerConfig) -> None:
    """Raise OfflineError for a member of a cluster of KRaft controllers: it has no coordination tree."""
    if config.in_kraft:
        raise OfflineError(
            "process.roles: the topics, settings and users of this broker are at the KRaft controllers, not in its "
            "directories: change them through a running broker, with --bootstrap-server"
        )


class OfflineError(PylogbrokerError):
    """Failed work on a stopped broker's files; the message gives reason and cure."""


def _endless_slices() -> Slices:
    return Slices(Clock(), inf)


def finish(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that never waits, as with synchronous blocking work."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    raise OfflineError("the coordination tree is not a local one")


@attrs.define(eq=False, repr=False)
class StoppedBroker:
    config: BrokerConfig
    tree: ITree
    logs: LogManager
    id: int
    metadata: ClusterMetadata
    controller: LocalController

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def topics(self) -> dict[str, TopicImage]:
        """Return every topic in the tree, even during deletion."""
        contents = finish(read_image(self.tree, _endless_slices()))
        return {**contents.image.topics, **{topic.name: topic for topic in contents.deleted}}

    @contextmanager
    def loaded_logs(self, report: Report) -> Iterator[dict[TopicPartition, Log]]:
        """Open all topics' logs and recover them as a start does; `report` gets findings.

        On exit, flush the logs and mark them as cleanly stopped.
        """
        topics = self.topics()
        topic_ids = {(topic.name, index): topic.id for topic in topics.values() for index in topic.partitions}
        configs = {name: self._log_config(name) for name in topics}
        default = log_config(self.config.topic({}))
        for deleted in load_logs(
            self.logs, lambda topic: configs.get(topic, default), self.now_ms(), report, topic_ids
        ):
            deleted.remove()
        try:
            for log in self.logs.logs.values():
                log.high_watermark = log.log_end_offset
            yield self.logs.logs
        finally:
            failed = self.logs.close()
        if failed:
            raise OfflineError("; ".join(map(str, failed)))

    def make_logs(self, topic: TopicImage) -> None:
        """Create a new topic's logs; only within `loaded_logs`."""
        config = self._log_config(topic.name)
        for index in topic.partitions:
            self.logs.create(topic.name, index, config, self.now_ms(), topic_id=topic.id)

    def _log_config(self, topic: str) -> LogConfig:
        return log_config(self.config.topic(self.metadata.topic_settings(topic)))


@contextmanager
def stopped_broker(config: BrokerConfig) -> Iterator[StoppedBroker]:
    """Open a broker's files; raise StartupError if it runs, or if they are not its own, and OfflineError."""
    check_own_metadata(config)
    check_stopped(config)
    tree = EmbeddedTree.open(os.path.abspath(config.metadata_dir))
    try:
        logs = LogManager(config.log_dirs, recovery_threads=config.num_recovery_threads_per_data_dir)
        try:
            yield _opened(config, tree, logs)
        finally:
            logs.directories.unlock()
    finally:
        finish(tree.close())


def _opened(config: BrokerConfig, tree: EmbeddedTree, logs: LogManager) -> StoppedBroker:
    broker_id, _ = finish(identify(config, tree, logs.directories, maybeDeferred))
    failed = [directory.failure for directory in logs.directories if directory.failure]
    if failed:
        raise StartupError(f"a log directory cannot be used: {'; '.join(failed)}")
    metadata = ClusterMetadata()
    controller = LocalController(tree, config, broker_id, metadata)
    finish(controller.open(_endless_slices()))
    return StoppedBroker(config, tree, logs, broker_id, metadata, controller)
