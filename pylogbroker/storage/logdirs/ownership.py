"""Decides which directories are the broker's logs.

A directory named like a partition may be an earlier topic's, a copy, or other data, which recovery would truncate.

| topic in the tree | `partition.metadata` | holds            | decision                                            |
|-------------------|----------------------|------------------|-----------------------------------------------------|
| yes               | has the topic's id   |                  | open: the topic's log                               |
| yes               | missing, or torn     | segments of ours | open: a loss of power took the file                 |
| yes               | missing, or torn     | other segments   | ignore                                              |
| yes               | has another id       |                  | ignore; renamed to `-stray` when the log is created |
| no                | has an id            |                  | ignore; open if that topic comes later              |
| no                | missing, or torn     | files of ours    | ignore; a topic that comes later has them, unless   |
|                   |                      |                  | it is new: renamed to `-stray`                      |
| no                | missing, or torn     | other files      | ignore; no topic of that name is served             |

At a start, the topics may be those of an older copy of the metadata.
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
_LOG_FILES: Final = frozenset(
    (names.LEADER_EPOCHS, names.ABORTED_TRANSACTIONS, names.PARTITION_METADATA, names.MESSAGE_FORMAT, names.SWAP_COMMIT)
)


class TopicIds(Protocol):
    """Topic ids by partition: a mapping, or what looks them up elsewhere."""

    def get(self, key: TopicPartition, /) -> UUID | None: ...


"""Topic ids in the coordination tree."""


@attrs.frozen
class ForeignDirectory:
    """Directory that is not opened.

    `topic_id` is None if the broker did not write it, or if it `lacks_id`: a loss of power took the file.
    """

    path: str
    reason: str
    topic_id: UUID | None = None
    lacks_id: bool = False

    def is_of(self, topic_id: UUID | None, is_new: bool) -> bool:
        """Return whether it is the log of a topic that is known later."""
        return not is_new if self.lacks_id else self.topic_id is not None and self.topic_id == topic_id

    @property
    def is_own(self) -> bool:
        return self.lacks_id or self.topic_id is not None


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
    if topic_id is not None:
        return None
    return ForeignDirectory(path, NO_TOPIC, lacks_id=True) if _is_own(path) else ForeignDirectory(path, FOREIGN)


def _is_own(path: str) -> bool:
    return all(name in _LOG_FILES or names.parse_file(name) is not None for name in os.listdir(path))
