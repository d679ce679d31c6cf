"""The last checkpoint of each group and partition, from the records of a checkpoints topic in their order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import attrs
from twisted.logger import Logger

from pylogbroker.errors import CorruptRecords
from pylogbroker.interfaces import TopicPartition
from pylogbroker.mirror_records.formats import Checkpoint

log = Logger()

CHECKPOINTS_MAX: Final = 1_000_000
"""Checkpoints that are held; later ones of other groups are not, as if they did not exist."""

WriteCheckpoint = Callable[[Checkpoint], object]


@attrs.define(eq=False, repr=False)
class Checkpoints:
    """Checkpoints by group and the target's partition; new ones are passed to `write`."""

    _write: WriteCheckpoint
    _by_group: dict[str, dict[TopicPartition, Checkpoint]] = attrs.field(factory=dict)
    _count: int = 0

    def load(self, key: bytes | None, value: bytes | None) -> None:
        """Take a stored record; log one that is damaged, and ignore it."""
        try:
            checkpoint = Checkpoint.decode(key, value)
        except CorruptRecords as error:
            if value is not None:
                log.warn("a record of the checkpoints topic is ignored: {error}", error=str(error))
            return
        self._put(checkpoint)

    def of(self, group: str) -> dict[TopicPartition, Checkpoint]:
        return self._by_group.get(group, {})

    def groups(self) -> Iterable[str]:
        return self._by_group.keys()

    def add(self, checkpoint: Checkpoint) -> None:
        if self.of(checkpoint.group).get((checkpoint.topic, checkpoint.partition)) != checkpoint:
            self._put(checkpoint)
            self._write(checkpoint)

    def clear(self) -> None:
        """Forget all checkpoints: what is stored is read again."""
        self._by_group.clear()
        self._count = 0

    def _put(self, checkpoint: Checkpoint) -> None:
        checkpoints = self._by_group.setdefault(checkpoint.group, {})
        partition = checkpoint.topic, checkpoint.partition
        if partition not in checkpoints:
            if self._count >= CHECKPOINTS_MAX:
                return
            self._count += 1
        checkpoints[partition] = checkpoint
