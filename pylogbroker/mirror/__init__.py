"""Mirrors: topics of one cluster, copied to another; a consumer of the source and a producer of the target.

    `mirror`             `Mirror`: meets both clusters, stands by, runs one session after the other
    `session`            from the committed positions to an error; compares topics
    `copier`             fetched records into transactions, with their positions
    `batches`            batches of the source as batches for the target, mostly as they are
    `source`             fetches and buffers;  `chunks`: its fetches, taken in turn;  `rate_limit`: bytes per second
    `lag_table`          lags of partitions and topics, kept as they change;  `lost_offsets`: what the source deleted
    `legacy07_source`    a broker of Kafka 0.7 as the source
    `target`             transactions and produce requests;  `send_queue`: the batches on their way
    `positions`          positions in MirrorMaker 2's topic and format;  `committed_records`: reads such topics
    `topics`             which topics are mirrored, and what the target lacks;  `preparation`: creates it
    `stopped_topics`     topics that have an error;  `loops`: topics that come from the target
    `election`           one process of several copies
    `follow_up`          tasks beside the copying; `sync_settings`: which; `followed_cluster`: the clients that they use
    `topic_task`         one of these tasks, which soon runs for new topics
    `group_sync`         offsets of groups follow; `group_offsets` decides which; `checkpoints`: the last ones
    `offset_recorder`    offsets of committed records; `offset_translation`: from one cluster to the other
    `settings_sync`, `acl_sync`, `heartbeats`    settings and ACLs of topics; signs of life
    `settings`, `parts`  settings of a mirror; parts that sessions share
    `configuration`      settings from a file, with MirrorMaker 2's names
    `service`, `tap`     mirrors as a service of Twisted, and of twistd
    `wake_up`, `errors`  a signal; errors;  `rights`: errors that name a missing right
    `garbage`            garbage collection of a process that only mirrors

Records of MirrorMaker 2's topics are in `pylogbroker.mirror_records`. docs/mirror.md is for users, and
docs/decisions/0044-mirrors.md has the reasons.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pylogbroker.lazy_names import lazy_names

if TYPE_CHECKING:
    from pylogbroker.mirror.configuration import mirrors_of, replication_policy
    from pylogbroker.mirror.errors import MirrorError
    from pylogbroker.mirror.mirror import Mirror, MirrorStatus
    from pylogbroker.mirror.service import MirrorService
    from pylogbroker.mirror.settings import MirroredCluster, MirrorSettings
    from pylogbroker.mirror.sync_settings import SyncSettings

__all__ = [
    "Mirror",
    "MirrorError",
    "MirrorService",
    "MirrorSettings",
    "MirrorStatus",
    "MirroredCluster",
    "SyncSettings",
    "mirrors_of",
    "replication_policy",
]

_MODULES: Final = {
    "Mirror": ".mirror",
    "MirrorError": ".errors",
    "MirrorService": ".service",
    "MirrorSettings": ".settings",
    "MirrorStatus": ".mirror",
    "MirroredCluster": ".settings",
    "SyncSettings": ".sync_settings",
    "mirrors_of": ".configuration",
    "replication_policy": ".configuration",
}

__getattr__, __dir__ = lazy_names(__name__, _MODULES)
