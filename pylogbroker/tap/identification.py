"""Identity of the broker: cluster id, broker id and directory ids."""

from __future__ import annotations

import os

from twisted.logger import Logger

from pylogbroker.broker.runtime.resources import InThread
from pylogbroker.config import BrokerConfig
from pylogbroker.errors import StartupError
from pylogbroker.interfaces import ITree
from pylogbroker.metadata import registration
from pylogbroker.storage import DirectoryIdentity, LogDirectories
from pylogbroker.tap import preflight

log = Logger()


async def identify(
    config: BrokerConfig, tree: ITree, directories: LogDirectories, in_thread: InThread
) -> tuple[int, str]:
    """Lock the log directories and write the ids to them; return the broker id and the cluster id.

    Raise StartupError if the data is another broker's or cluster's. In ZooKeeper, a new cluster does not take the id of
    the directories: its path may be misspelt.
    """
    await registration.create_permanent_nodes(tree)
    identity = await in_thread(directories.read_identity)
    cluster_id = await registration.cluster_id(tree, None if config.in_cluster else identity.cluster_id)
    broker_id = await _number(config, tree, identity)
    remembered = await registration.directories(tree, broker_id)
    directories.check_ids(remembered, os.path.abspath(config.metadata_dir))
    for notice in await in_thread(directories.lock):
        log.error("a log directory is offline: {why}", why=notice.text)
    await in_thread(directories.claim, broker_id, cluster_id)
    await registration.remember_directories(tree, broker_id, directories.expected_ids(remembered))
    config.decide("broker.id", str(broker_id))
    return broker_id, cluster_id


async def identify_in_kraft(
    config: BrokerConfig, tree: ITree, directories: LogDirectories, in_thread: InThread
) -> tuple[int, str]:
    """Lock the log directories, which were formatted before; return the broker id and the cluster id.

    Raise StartupError if one is not formatted, or the data is another broker's.
    """
    await registration.create_permanent_nodes(tree)
    for notice in await in_thread(directories.lock):
        log.error("a log directory is offline: {why}", why=notice.text)
    try:
        cluster_id = await in_thread(directories.require_formatted, config.broker_id)
    except StartupError:
        await in_thread(directories.unlock)
        raise
    return config.broker_id, cluster_id


async def _number(config: BrokerConfig, tree: ITree, identity: DirectoryIdentity) -> int:
    """Return the broker id: from the setting, the directories, the topics' owner, or a new one."""
    if config.in_cluster:
        number = config.broker_id
        if number < 0 and identity.broker_id is not None:
            number = identity.broker_id
        return number if number >= 0 else await _new_number(config, tree)
    replica_brokers = await registration.replica_brokers(tree)
    remembered = min(replica_brokers, default=-1) if identity.broker_id is None else identity.broker_id
    number = config.broker_id
    if number < 0:
        number = remembered
    if replica_brokers and number not in replica_brokers:
        raise StartupError(_of_another(config, number, min(replica_brokers)))
    return number if number >= 0 else await _new_number(config, tree)


async def _new_number(config: BrokerConfig, tree: ITree) -> int:
    return await registration.new_broker_id(tree, config.reserved_broker_max_id)


def _of_another(config: BrokerConfig, number: int, owner: int) -> str:
    chosen = config.broker_id >= 0
    remedy = preflight.cure(config, owner) if chosen else "remove meta.properties from the log directories"
    return f"the topics here belong to broker {owner}, this is broker {number}: {remedy}"
