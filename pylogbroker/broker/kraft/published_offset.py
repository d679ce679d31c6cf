"""Offset of the last metadata record whose changes this broker has published, and waits for later ones."""

from __future__ import annotations

from typing import Final

import attrs
from twisted.internet.defer import CancelledError, Deferred, TimeoutError

from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.errors import ErrorCode, KafkaError

WAIT_SECONDS: Final = 30.0


@attrs.define(eq=False, repr=False)
class PublishedOffset:
    _runtime: Runtime
    offset: int = attrs.field(default=-1, init=False)
    _waiting: dict[Deferred[None], int] = attrs.field(factory=dict, init=False)
    """Offsets that callers wait for."""
    _is_closed: bool = attrs.field(default=False, init=False)

    def advance(self, offset: int) -> None:
        """Take the offset of the last record that is published now; a snapshot may take it far ahead."""
        self.offset = offset
        for waiting, least in tuple(self._waiting.items()):
            if least <= offset:
                del self._waiting[waiting]
                waiting.callback(None)

    async def reach(self, offset: int, late: str) -> None:
        """Wait until this offset is published.

        Raise REQUEST_TIMED_OUT, with the text `late`, if that takes long, or the broker stops.
        """
        if offset <= self.offset:
            return
        waiting: Deferred[None] = Deferred()
        self._waiting[waiting] = offset
        waiting.addTimeout(WAIT_SECONDS, self._runtime.clock)
        if self._is_closed:
            waiting.cancel()
        try:
            await waiting
        except (CancelledError, TimeoutError) as error:
            self._waiting.pop(waiting, None)
            raise KafkaError(late, ErrorCode.REQUEST_TIMED_OUT) from error

    def close(self) -> None:
        """Wait for nothing any more."""
        self._is_closed = True
        for waiting in tuple(self._waiting):
            waiting.cancel()
