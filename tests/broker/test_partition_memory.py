"""Memory that the broker keeps for each partition after a start."""

from __future__ import annotations

import gc
import tracemalloc

from tests.broker.nodes import NodeTests

BEFORE = 20
ADDED = 200
PARTITION_BYTES_MAX = 4_400
"""Of the interpreter's objects. The process takes a tenth more."""


class PartitionMemoryTests(NodeTests):
    def bytes_after_restart(self) -> int:
        """Return the traced size of a node that was just started."""
        self._stack.close()
        gc.collect()
        tracemalloc.start()
        try:
            self.restart()
            gc.collect()
            return tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()

    def test_a_partition_with_records_takes_little_memory(self) -> None:
        self.node.create("before", BEFORE)
        for index in range(BEFORE):
            self.node.produce("before", index, 1)
        self.restart()  # fills caches
        before = self.bytes_after_restart()
        self.node.create("added", ADDED)
        for index in range(ADDED):
            self.node.produce("added", index, 1)
        grown = self.bytes_after_restart() - before
        self.assertLess(grown / ADDED, PARTITION_BYTES_MAX)
