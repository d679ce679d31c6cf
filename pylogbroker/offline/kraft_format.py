"""Formats log directories for a cluster of KRaft controllers, as `kafka-storage format` does for Apache Kafka.

Each directory gets `meta.properties` of version 1: the broker's and the cluster's id, and an id of its own. A directory
that is formatted alike keeps it; one that holds anything else is an error, and nothing is written.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterator
from typing import Final

import attrs

from pylogbroker.config import BrokerConfig
from pylogbroker.errors import StartupError
from pylogbroker.storage import DirectoryIdentity, LogDirectories, LogDirectory
from pylogbroker.storage.log.partition_metadata import id_text
from pylogbroker.storage.logdirs.log_directory import OF_KRAFT
from pylogbroker.tap import preflight

_CLUSTER_ID: Final = re.compile(r"[!-~]{1,128}")
"""Apache Kafka formats controllers with any text, such as base64 with `==`; a wrong one is rejected at the start."""
_RESERVED: Final = frozenset({uuid.UUID(int=number) for number in range(100)})
"""Ids of directories that Kafka keeps for itself: unassigned, lost, migrating."""


def random_id() -> str:
    """Return a new id of a cluster or directory, which no option could be taken for."""
    while True:
        made = uuid.uuid4()
        text = id_text(made)
        if made not in _RESERVED and not text.startswith("-"):
            return text


@attrs.frozen
class FormattedDirectory:
    path: str
    was_formatted: bool


def format_directories(
    config: BrokerConfig, cluster_id: str, ignores_formatted: bool = False
) -> Iterator[FormattedDirectory]:
    """Format the log directories of a broker that does not run; raise StartupError, before anything is written."""
    if not config.in_kraft:
        raise StartupError(
            "process.roles is not broker: only members of a cluster of KRaft controllers need formatted directories; "
            "set process.roles, node.id and controller.quorum.bootstrap.servers first"
        )
    if not _CLUSTER_ID.fullmatch(cluster_id):
        raise StartupError(
            f"{cluster_id!r} is no id of a cluster: that of the controllers is cluster.id in their meta.properties, "
            "and `kafka-cluster.sh cluster-id --bootstrap-controller ...` prints it"
        )
    preflight.check(config)
    directories = LogDirectories(config.log_dirs)
    identity = DirectoryIdentity(config.broker_id, cluster_id, None, OF_KRAFT)
    identities = [(directory, _present(directory, identity)) for directory in directories]
    formatted = [directory.path for directory, present in identities if present is not None]
    if formatted and not ignores_formatted:
        raise StartupError(f"{formatted[0]} is formatted already; --ignore-formatted formats the others")
    for directory, present in identities:
        if present is None:
            os.makedirs(directory.path, exist_ok=True)
            directory.write_identity(attrs.evolve(identity, directory_id=random_id()))
        yield FormattedDirectory(directory.path, present is not None)


def _present(directory: LogDirectory, identity: DirectoryIdentity) -> DirectoryIdentity | None:
    """Return the identity of a directory that is formatted alike, None of an empty one; raise StartupError."""
    present = directory.read_identity()
    if present.version == OF_KRAFT:
        if (present.broker_id, present.cluster_id) != (identity.broker_id, identity.cluster_id):
            raise StartupError(
                f"{directory.path} is formatted for node.id {present.broker_id} of cluster {present.cluster_id}: "
                "choose another directory, or remove this one if its data is not needed"
            )
        return present
    names = [name for name in _names(directory.path) if not name.startswith(".")]
    if present != DirectoryIdentity() or names:
        raise StartupError(
            f"{directory.path} holds {names[0] if names else 'data'}: it is not empty, and nothing in it is changed. A "
            "broker with another source of metadata cannot be converted; choose another directory"
        )
    return None


def _names(path: str) -> list[str]:
    try:
        return sorted(os.listdir(path))
    except FileNotFoundError:
        return []
