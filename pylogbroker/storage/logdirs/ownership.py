"""Which directories are the broker's to write to.

A directory that is named like a partition may be an earlier topic's, or may have been put there by a person: a copy, or
data of Kafka 0.7.  To open it as a log would cut what does not look like records, and make files in it.

| in the tree | `partition.metadata` | holds            |                                                |
|-------------|----------------------|------------------|------------------------------------------------|
| yes         | has the topic's id   |                  | the topic's log                                |
| yes         | missing, or torn     | segments of ours | the topic's log: a loss of power took the file |
| yes         | missing, or torn     | segments of 0.7  | left alone                                     |
| yes         | has another id       |                  | left alone; set aside when the topic is led    |
| no          |                      |                  | left alone                                     |
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final
from uuid import UUID

import attrs

from pylogbroker.storage import names
from pylogbroker.storage.checkpoints import TopicPartition
from pylogbroker.storage.kafka07 import holds_kafka07
from pylogbroker.storage.log.partition_metadata import id_text, read_topic_id

KAFKA07: Final = "holds data of Kafka 0.7: move it away, and import it from there by `pylogbroker migrate kafka07`"
FOREIGN: Final = "was not written by this broker: move it away"
NO_TOPIC: Final = "belongs to no topic"

Topics = Mapping[TopicPartition, UUID]
"""The partitions in the coordination tree, with the ids of their topics."""


@attrs.frozen
class ForeignDirectory:
    """A directory that is named like a partition and is left alone.

    `topic_id` is the id of the topic that it belonged to; without one, the directory is none of the broker's.
    """

    path: str
    reason: str
    topic_id: UUID | None = None


def foreign(path: str, key: TopicPartition, topics: Topics) -> ForeignDirectory | None:
    """Why a directory that is named after a partition must not be opened; None if it may.  Blocks; OSError."""
    marked = read_topic_id(path)
    wanted = topics.get(key)
    if marked is not None:
        if marked == wanted:
            return None
        reason = NO_TOPIC if wanted is None else f"belongs to another topic of that name, {id_text(marked)}"
        return ForeignDirectory(path, reason, marked)
    if not os.path.exists(f"{path}/{names.MESSAGE_FORMAT}") and holds_kafka07(path):
        return ForeignDirectory(path, KAFKA07)
    return ForeignDirectory(path, FOREIGN) if wanted is None else None
