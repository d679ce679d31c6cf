"""Clock, worker threads and time slices of one broker: what its services share to run on one reactor thread."""

from __future__ import annotations

import attrs
from twisted.internet.interfaces import IReactorTime

from pylogbroker.broker.deferred_actions import DeferredActions
from pylogbroker.broker.log_rate_limit import LogRateLimit
from pylogbroker.broker.slices import Slices
from pylogbroker.broker.threads import InThread


@attrs.frozen(eq=False)
class Runtime:
    """Shared by all services of a broker.

    `in_thread` runs a blocking call in a worker thread and returns a Deferred of its result.  `in_reading_thread` runs
    one that mostly waits for the disk, in a thread of low priority.
    """

    clock: IReactorTime
    in_thread: InThread
    in_reading_thread: InThread
    slices: Slices
    deferred_actions: DeferredActions
    log_rate_limit: LogRateLimit

    @classmethod
    def on(cls, clock: IReactorTime, in_thread: InThread, in_reading_thread: InThread) -> Runtime:
        """Return the runtime of a new broker."""
        return cls(clock, in_thread, in_reading_thread, Slices(clock), DeferredActions(clock), LogRateLimit())

    def now_ms(self) -> int:
        """Return the time of day, in milliseconds since 1970."""
        return int(self.clock.seconds() * 1000)

    def may_log(self, about: str) -> bool:
        """Return True at most once a minute for each `about`; the caller logs a line then."""
        return self.log_rate_limit.is_due(about, self.now_ms())
