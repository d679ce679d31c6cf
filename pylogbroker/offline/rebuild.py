"""Rebuild the coordination tree from the log directories, when `coordination.sqlite` is lost.

    source                                   recovered
    directory names                          topics, and their numbers of partitions
    `partition.metadata`                     topic ids
    `meta.properties`                        broker id, cluster id, directory ids
    `leader-epoch-checkpoint`, batches       leader epochs
    batches, snapshots, transactional ids    allocated producer ids
    `message-format`                         topics with the message format 0.7
    `cleaner-offset-checkpoint`              compacted topics

Topic settings are lost, so retention is off until it is set again: nothing to be kept is deleted. ACLs, users with
SCRAM credentials, client quotas and delegation tokens are lost, too.

The tree is built in its own directory, and moved into place when complete.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from uuid import UUID

from twisted.internet.defer import maybeDeferred

from pylogbroker.broker.coordinators.group_service import offsets_topic_settings
from pylogbroker.broker.coordinators.transaction_service import transactions_topic_settings
from pylogbroker.config import BrokerConfig
from pylogbroker.errors import StartupError
from pylogbroker.interfaces import SetData
from pylogbroker.metadata import zk_paths, zk_schema
from pylogbroker.metadata.delta import PlannedTopic
from pylogbroker.metadata.image import ClusterImage, PartitionState, TopicImage
from pylogbroker.metadata.persistent_map import PersistentMap
from pylogbroker.metadata.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from pylogbroker.metadata.zk_image import operations
from pylogbroker.metadata.zk_schema import PRODUCER_ID_BLOCK_SIZE, ProducerIdBlock
from pylogbroker.offline import kafka07_import
from pylogbroker.offline.inventory import NO_PRODUCER, FoundLog, find_logs, has_logs
from pylogbroker.offline.stopped_broker import OfflineError, check_own_metadata, finish
from pylogbroker.storage import LogDirectories
from pylogbroker.storage.files import sync_file
from pylogbroker.tap import preflight
from pylogbroker.tap.brokers.data import BROKER_DIRECTORIES, brokers_below
from pylogbroker.tap.identification import identify
from pylogbroker.tree.embedded import EmbeddedTree
from pylogbroker.tree.tree_file import FILE_NAME

_WORKPLACE = "coordination.rebuild"
_SETTINGS: Mapping[str, str] = {"retention.ms": "-1", "retention.bytes": "-1"}
ReportLine = Callable[[str], object]


def rebuild(config: BrokerConfig, report: ReportLine) -> None:
    """Rebuild `coordination.sqlite`; report what was recovered or lost.

    Raise OfflineError if the file exists, or if the data is of several brokers; StartupError if the broker runs, or a
    log directory cannot be used.
    """
    check_own_metadata(config)
    metadata = os.path.abspath(config.metadata_dir)
    _check_missing(config, metadata)
    _check_number_of_brokers(config)
    preflight.inspect_directories(config)
    if not any(map(has_logs, config.log_dirs)):
        raise OfflineError(f"{', '.join(config.log_dirs)}: no partition of this broker was found")
    workplace = f"{metadata}/{_WORKPLACE}"
    shutil.rmtree(workplace, ignore_errors=True)
    os.makedirs(workplace)
    directories = LogDirectories(config.log_dirs)
    try:
        tree = EmbeddedTree.open(workplace)
        try:
            _fill(config, tree, directories, report)
        finally:
            finish(tree.close())
        sync_file(f"{workplace}/{FILE_NAME}")
        _rename_journal(metadata)
        os.link(f"{workplace}/{FILE_NAME}", f"{metadata}/{FILE_NAME}")  # unlike a rename, never replaces a file
        sync_file(metadata)
    finally:
        directories.unlock()
        shutil.rmtree(workplace, ignore_errors=True)


def _check_missing(config: BrokerConfig, metadata: str) -> None:
    for directory in dict.fromkeys((metadata, *map(os.path.abspath, config.log_dirs))):
        path = f"{directory}/{FILE_NAME}"
        if os.path.lexists(path):
            raise OfflineError(f"{path} exists: only a missing file is rebuilt; move it away if it cannot be used")


def _check_number_of_brokers(config: BrokerConfig) -> None:
    """Raise OfflineError for data of several brokers: it does not show which replicas were in sync."""
    for directory in map(os.path.abspath, config.log_dirs):
        others = sorted(brokers_below(directory))
        if others:
            raise OfflineError(
                f"{directory}/{BROKER_DIRECTORIES} has data of more brokers ({', '.join(map(str, others))}): the tree "
                "of several brokers cannot be rebuilt; restore it from a backup, together with the logs"
            )


def _rename_journal(metadata: str) -> None:
    """Rename the lost file's journal: SQLite would apply it to the new file."""
    for suffix in ("-wal", "-shm"):
        with suppress(FileNotFoundError):
            os.rename(f"{metadata}/{FILE_NAME}{suffix}", f"{metadata}/{FILE_NAME}{suffix}.lost")


def _fill(config: BrokerConfig, tree: EmbeddedTree, directories: LogDirectories, report: ReportLine) -> None:
    broker_id, cluster_id = finish(identify(config, tree, directories, maybeDeferred))
    failed = [directory.failure for directory in directories if directory.failure]
    if failed:
        raise StartupError(f"a log directory cannot be used, and its topics would be lost: {'; '.join(failed)}")
    logs = find_logs(list(directories))
    report(f"broker {broker_id} of cluster {cluster_id}")
    by_topic: dict[str, dict[int, FoundLog]] = {}
    for (name, index), log in sorted(logs.items()):
        if log.topic_id is None:
            report(f"skipped {log.path}: it has no partition.metadata, so it may not be this broker's")
        else:
            by_topic.setdefault(name, {})[index] = log
    for name, partitions in by_topic.items():
        topic = _topic(name, partitions, broker_id, report)
        planned = PlannedTopic(topic, _settings(name, partitions, config))
        finish(tree.commit(list(operations(planned.delta, ClusterImage()))))
        report(f"topic {name}: {len(topic.partitions)} partition(s), id {zk_schema.id_text(topic.id)}")
    _reserve_producer_ids(tree, broker_id, max(log.producer_id for log in logs.values()))
    for loss in _LOSSES:
        report(f"not recovered: {loss}")
    if config.authorizer_class_name and config.allow_everyone_if_no_acl_found:
        report(
            "WARNING: without ACLs everybody may do everything now, because allow.everyone.if.no.acl.found is true: "
            "set it to false, start the broker, create the ACLs, and set it to true again"
        )


_LOSSES = (
    "topic settings; retention.ms and retention.bytes are -1 for all topics, so nothing is deleted: "
    "set each topic's settings again",
    "ACLs: an authorizer lets only super.users do anything until you create them again; "
    "with allow.everyone.if.no.acl.found=true it lets everybody do everything",
    "users with SCRAM credentials, client quotas and delegation tokens: create them again",
    "broker settings that were changed at run time, and settings of groups",
    "levels of features: the next start begins with the newest",
    "topics without any directory, and partitions after the last directory of a topic",
    "pending deletions: those topics may exist again, in part",
    "the origins of topics imported from Kafka 0.7",
)


def _topic(name: str, logs: dict[int, FoundLog], broker_id: int, report: ReportLine) -> TopicImage:
    topic_id = _current_id(logs)
    for index, log in list(logs.items()):
        if log.topic_id != topic_id:
            report(f"skipped {log.path}: it belongs to another topic with that name")
            del logs[index]
    partitions = {}
    for index in range(max(logs) + 1):
        epoch = logs[index].leader_epoch if index in logs else 0
        partitions[index] = PartitionState(broker_id, (broker_id,), (broker_id,), epoch)
        if index not in logs:
            report(f"lost {name}-{index}: its directory is missing; the partition will be empty")
    return TopicImage(name, topic_id, PersistentMap(partitions))


def _current_id(logs: Mapping[int, FoundLog]) -> UUID:
    ids = Counter(log.topic_id for log in logs.values() if log.topic_id is not None)
    return ids.most_common(1)[0][0]


def _settings(name: str, logs: Mapping[int, FoundLog], config: BrokerConfig) -> dict[str, str]:
    if name == OFFSETS_TOPIC:
        return offsets_topic_settings(config)
    if name == TRANSACTIONS_TOPIC:
        return transactions_topic_settings(config)
    if any(log.is_kafka07 for log in logs.values()):
        return dict(kafka07_import.SETTINGS)
    compacts = any(log.is_compacted for log in logs.values())
    return {**_SETTINGS, "cleanup.policy": "compact"} if compacts else dict(_SETTINGS)


def _reserve_producer_ids(tree: EmbeddedTree, broker_id: int, largest: int) -> None:
    """Skip the rest of the last known block of producer ids, and one more block."""
    if largest == NO_PRODUCER:
        return
    first = largest // PRODUCER_ID_BLOCK_SIZE * PRODUCER_ID_BLOCK_SIZE
    block = ProducerIdBlock(broker=broker_id, first=first, last=first + 2 * PRODUCER_ID_BLOCK_SIZE - 1)
    finish(tree.commit([SetData(zk_paths.PRODUCER_ID_BLOCK, zk_schema.encode_producer_ids(block))]))
