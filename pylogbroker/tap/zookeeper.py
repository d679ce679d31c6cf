"""Connection of a broker to the ZooKeeper that `zookeeper.connect` names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from pylogbroker.broker.runtime.resources import InThread
from pylogbroker.config import BrokerConfig
from pylogbroker.config.value_kinds import render
from pylogbroker.features import on_first_use
from pylogbroker.interfaces import ITree
from pylogbroker.metadata.zk_acl import secure_acl
from pylogbroker.tap import tree_login
from pylogbroker.tree.zookeeper_options import parse_connect, parse_options

if TYPE_CHECKING:
    from pylogbroker.tree import zookeeper
else:
    zookeeper = on_first_use("pylogbroker.tree.zookeeper")


async def connect(reactor: Any, config: BrokerConfig, in_thread: InThread) -> ITree:
    """Return the tree in ZooKeeper; raise StartupError if it is not reached within the connection timeout."""
    connect_tree = zookeeper.ZooKeeperTree.connect
    settings = {name: render(value) for name, value in config.by_name().items() if name.startswith("zookeeper.")}
    servers = parse_connect(config.text("zookeeper.connect"))
    options = attrs.evolve(parse_options(settings, secure_acl), digest=tree_login.take())
    return await connect_tree(servers, options, reactor, in_thread)
