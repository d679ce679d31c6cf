"""Progress of this broker in the metadata log, and waits for later records."""

from __future__ import annotations

from typing import Final

import attrs
from twisted.internet.defer import CancelledError, Deferred, TimeoutError

from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.errors import ErrorCode, KafkaError

WAIT_SECONDS: Final = 30.0


@attrs.define(eq=False, repr=False)
class PublishedOffset:
    """`offset` is that of the last record whose changes are published, `timestamp_ms` the time of its batch.

    `snapshots` counts the snapshots that were loaded, `apply_errors` the partitions that could not take their role.
    """

    _runtime: Runtime
    offset: int = attrs.field(default=-1, init=False)
    timestamp_ms: int = attrs.field(default=-1, init=False)
    snapshots: int = attrs.field(default=0, init=False)
    apply_errors: int = attrs.field(default=0, init=False)
    load_errors: int = attrs.field(default=0, init=False)
    _waiting: dict[Deferred[None], int] = attrs.field(factory=dict, init=False)
    """Offsets that callers wait for."""
    _is_closed: bool = attrs.field(default=False, init=False)

    def advance(self, offset: int, timestamp_ms: int) -> None:
        """Take the last record that is published now; a snapshot may take it far ahead."""
        self.offset, self.timestamp_ms = offset, timestamp_ms
        for waiting, least in tuple(self._waiting.items()):
            if least <= offset:
                del self._waiting[waiting]
                waiting.callback(None)

    def reached(self, offset: int) -> Deferred[None]:
        """Return a Deferred that fires when this offset is published; it is cancelled when the broker stops."""
        waiting: Deferred[None] = Deferred(self._forget)
        if offset <= self.offset:
            waiting.callback(None)
        elif self._is_closed:
            waiting.cancel()
        else:
            self._waiting[waiting] = offset
        return waiting

    async def reach(self, offset: int, late: str) -> None:
        """Wait until this offset is published.

        Raise REQUEST_TIMED_OUT, with the text `late`, if that takes long, or the broker stops.
        """
        try:
            await self.reached(offset).addTimeout(WAIT_SECONDS, self._runtime.clock)
        except (CancelledError, TimeoutError) as error:
            raise KafkaError(late, ErrorCode.REQUEST_TIMED_OUT) from error

    def _forget(self, cancelled: Deferred[None]) -> None:
        self._waiting.pop(cancelled, None)

    def close(self) -> None:
        """Wait for nothing any more."""
        self._is_closed = True
        for waiting in tuple(self._waiting):
            waiting.cancel()
