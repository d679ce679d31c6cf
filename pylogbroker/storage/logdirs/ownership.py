"""Decides which directories are the broker's logs.

A directory named like a partition may be an earlier topic's, a copy, or other data, which recovery would truncate.

| topic in the tree | `partition.metadata` | holds            | decision                                            |
|-------------------|----------------------|------------------|-----------------------------------------------------|
| yes               | has the topic's id   |                  | open: the topic's log                               |
| yes               | missing, or torn     | segments of ours | open: a loss of power took the file                 |
| yes               | missing, or torn     | other segments   | ignore                                              |
| yes               | has another id       |                  | ignore; renamed to `-stray` when the log is created |
| no                |                      |                  | ignore                                              |
"""

from __future__ import annotations

import os
from typing import Final, Protocol
from uuid import UUID

import attrs

from pylogbroker.storage import names
from pylogbroker.storage.checkpoints import TopicPartition
from pylogbroker.storage.log.addressing import describe_foreign_data
from pylogbroker.storage.log.partition_metadata import id_text, read_topic_id

FOREIGN: Final = "was not written by this broker: move it away"
NO_TOPIC: Final = "belongs to no topic"


class TopicIds(Protocol):
    """Topic ids by partition: a mapping, or what looks them up elsewhere."""

    def get(self, key: TopicPartition, /) -> UUID | None: ...


"""Topic ids in the coordination tree."""


@attrs.frozen
class ForeignDirectory:
    """Directory that is not opened; `topic_id` is None if the broker did not write it."""

    path: str
    reason: str
    topic_id: UUID | None = None


def examine(path: str, key: TopicPartition, topics: TopicIds) -> ForeignDirectory | UUID | None:
    """Return why a directory must not be opened, or else the topic id in it, if any. Blocks; may raise OSError."""
    marked = read_topic_id(path)
    topic_id = topics.get(key)
    if marked is not None:
        if marked == topic_id:
            return topic_id
        reason = NO_TOPIC if topic_id is None else f"belongs to another topic of that name, {id_text(marked)}"
        return ForeignDirectory(path, reason, marked)
    if not os.path.exists(f"{path}/{names.MESSAGE_FORMAT}") and (data := describe_foreign_data(path)) is not None:
        return ForeignDirectory(path, data)
    return ForeignDirectory(path, FOREIGN) if topic_id is None else None
