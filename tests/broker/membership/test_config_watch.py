"""Settings of topics in the tree: changes while the image is read, and while the tree cannot be reached."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from pylogbroker.broker.membership.config_watch import ConfigWatch
from pylogbroker.broker.metadata.cluster_metadata import ClusterMetadata
from pylogbroker.broker.metadata.stored_settings import StoredSettings
from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.config import BrokerConfig
from pylogbroker.interfaces import Create, ITree, Unavailable
from pylogbroker.metadata import zk_paths, zk_schema
from pylogbroker.metadata.config_changes import notification
from pylogbroker.metadata.image import topic_resource
from tests.broker.membership.harness import BreakableTree, begin
from tests.broker.nodes import Threads
from tests.broker.trees import now, opened_tree


def test_a_change_while_the_image_is_read(tmp_path: Path) -> None:
    with opened_tree(str(tmp_path)) as tree:
        threads, metadata, resource = Threads(), ClusterMetadata(), topic_resource("t")
        watch = ConfigWatch(tree, metadata, Runtime.on(Clock(), threads, threads), StoredSettings(BrokerConfig({})))
        is_read: Deferred[None] = Deferred()

        async def read_image() -> None:
            before = metadata.image
            await is_read
            metadata.image = before

        opened = begin(watch.open(read_image))
        settings = zk_schema.encode_config({"retention.ms": "7"})
        now(tree.commit([Create(zk_paths.config(*resource), settings), notification("topics/t")]))
        is_read.callback(None)
        assert opened.called
        assert metadata.image.settings(resource) == {"retention.ms": "7"}
        watch.stop()


def test_other_reads_do_not_wait_for_one_that_is_repeated(tmp_path: Path) -> None:
    with opened_tree(str(tmp_path)) as embedded:
        tree, clock, threads, metadata = BreakableTree(embedded), Clock(), Threads(), ClusterMetadata()
        runtime = Runtime.on(clock, threads, threads)
        watch = ConfigWatch(cast(ITree, tree), metadata, runtime, StoredSettings(BrokerConfig({})))
        settings = zk_schema.encode_config({"retention.ms": "7"})
        now(tree.commit([Create(zk_paths.config(*topic_resource("new")), settings)]))
        tree.is_suspended = True
        repeated = begin(watch.read_topics(["new"]))
        with pytest.raises(Unavailable):
            now(watch.read(topic_resource("old")))
        assert not repeated.called
        tree.is_suspended = False
        clock.advance(1)
        assert repeated.called
        assert metadata.image.settings(topic_resource("new")) == {"retention.ms": "7"}
