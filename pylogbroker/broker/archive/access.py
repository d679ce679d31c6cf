"""Services that all archived partitions of a broker share."""

from __future__ import annotations

from collections.abc import Callable

import attrs
from twisted.internet.defer import DeferredSemaphore

from pylogbroker.broker.archive.limits import CopyLimits, ReadLimits
from pylogbroker.broker.archive.shared_reads import SharedReads
from pylogbroker.broker.archive.store_calls import StoreCalls
from pylogbroker.broker.partitions.partition import Partition
from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.storage.remote.checked_store import CheckedStore
from pylogbroker.storage.remote.chunk_cache import ChunkCache


@attrs.frozen(eq=False, repr=False)
class ArchiveAccess:
    runtime: Runtime
    store: CheckedStore
    cache: ChunkCache
    limits: CopyLimits
    read_limits: ReadLimits
    calls: StoreCalls
    is_led: Callable[[Partition], bool]
    reads: SharedReads
    listings: DeferredSemaphore
    """Few at the same time: threads that compute get no further together, and the reactor waits for each."""
    wait_ms: Callable[[], int]
    """Time that a fetch waits."""

    def stop(self) -> None:
        """Fail all that waits for the store, and what is asked later."""
        self.limits.stop()
        self.read_limits.stop()
        self.calls.stop()
        self.reads.stop()
