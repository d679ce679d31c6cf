"""Flow control of one connection: whether its requests are handled, and whether it is read.

    state             event    next state        meaning of the event
    ----------------  -------  ----------------  ----------------------------------------------------------------
    OPEN              YIELD    YIELDING          the round's time is over, and requests are left
                      HOLD     HELD              a request at work must be done before the next one begins
                      BLOCK    BLOCKED           the peer does not take its answers, or too many are not ready
    YIELDING          RESUME   OPEN              the next round begins
                      HOLD     HELD
                      BLOCK    BLOCKED
    HELD              RELEASE  OPEN              no request at work holds the next one any more
                      BLOCK    HELD_AND_BLOCKED
    BLOCKED           UNBLOCK  OPEN              the peer has taken enough answers, and few are not ready
                      HOLD     HELD_AND_BLOCKED
    HELD_AND_BLOCKED  RELEASE  BLOCKED
                      UNBLOCK  HELD
    these five        FINISH   FINISHING         no more requests begin; close after the last answer
    all but CLOSED    CLOSE    CLOSED            the connection ends

An event that a state does not list has no effect. Only OPEN begins requests. The connection is read only in OPEN; a
change within a round of work stops or starts reading at the round's end.

Holds are counted: RELEASE comes with the last of them. A large request is a hold while it waits for others
(`pylogbroker.net.large_requests`). A long one is a hold while it is decoded, and while its handler runs in slices. So
are authentications, throttle times of quotas, and faults of test brokers.

A round of work begins requests and sends answers. A connection has one at a time, and its `Round` says how far it is:

    NONE     an answer that becomes ready is sent at once, or begins a round, or makes one DUE
    WAITING  the round begins when other connections are read; more answers leave with it
    DUE      the round runs with the deferred actions of requests at work; more answers leave with it
    RUNNING  answers that become ready leave before the round's end
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum, auto
from typing import Any, Final, Protocol

from twisted.internet.interfaces import IDelayedCall


class FlowState(IntEnum):
    OPEN = auto()
    YIELDING = auto()
    HELD = auto()
    BLOCKED = auto()
    HELD_AND_BLOCKED = auto()
    FINISHING = auto()
    CLOSED = auto()


class FlowEvent(IntEnum):
    YIELD = auto()
    RESUME = auto()
    HOLD = auto()
    RELEASE = auto()
    BLOCK = auto()
    UNBLOCK = auto()
    FINISH = auto()
    CLOSE = auto()


class Round(IntEnum):
    NONE = auto()
    WAITING = auto()
    DUE = auto()
    RUNNING = auto()


_ENDS: Final = {FlowEvent.FINISH: FlowState.FINISHING, FlowEvent.CLOSE: FlowState.CLOSED}
TRANSITIONS: Final[Mapping[FlowState, Mapping[FlowEvent, FlowState]]] = {
    FlowState.OPEN: {
        FlowEvent.YIELD: FlowState.YIELDING,
        FlowEvent.HOLD: FlowState.HELD,
        FlowEvent.BLOCK: FlowState.BLOCKED,
        **_ENDS,
    },
    FlowState.YIELDING: {
        FlowEvent.RESUME: FlowState.OPEN,
        FlowEvent.HOLD: FlowState.HELD,
        FlowEvent.BLOCK: FlowState.BLOCKED,
        **_ENDS,
    },
    FlowState.HELD: {FlowEvent.RELEASE: FlowState.OPEN, FlowEvent.BLOCK: FlowState.HELD_AND_BLOCKED, **_ENDS},
    FlowState.BLOCKED: {FlowEvent.UNBLOCK: FlowState.OPEN, FlowEvent.HOLD: FlowState.HELD_AND_BLOCKED, **_ENDS},
    FlowState.HELD_AND_BLOCKED: {
        FlowEvent.RELEASE: FlowState.BLOCKED,
        FlowEvent.UNBLOCK: FlowState.HELD,
        **_ENDS,
    },
    FlowState.FINISHING: {FlowEvent.CLOSE: FlowState.CLOSED},
    FlowState.CLOSED: {},
}
"""Next states; an unlisted event has no effect."""

# for code that each request passes: a global costs less than an attribute of a class
OPEN: Final = FlowState.OPEN
FINISHING: Final = FlowState.FINISHING
CLOSED: Final = FlowState.CLOSED
RUNNING: Final = Round.RUNNING


class Readable(Protocol):
    """Side of a transport that flow control uses."""

    def stopReading(self) -> None: ...
    def startReading(self) -> None: ...


def _nothing() -> None:
    pass


class FlowControl:
    """State of one connection; `go_on` begins a round after a hold is released."""

    __slots__ = ("_clock", "_go_on", "_holds", "_transport", "_unmute", "is_reading", "round", "state")

    def __init__(self, transport: Readable, clock: Any, go_on: Callable[[], None]) -> None:
        self.state: FlowState = FlowState.OPEN
        self.round: Round = Round.NONE
        self.is_reading = True
        self._holds = 0
        self._unmute: IDelayedCall | None = None
        self._transport = transport
        self._clock = clock
        self._go_on = go_on

    @property
    def is_ending(self) -> bool:
        """True if no more requests begin."""
        return self.state is FINISHING or self.state is CLOSED

    def on(self, event: FlowEvent) -> None:
        self.state = TRANSITIONS[self.state].get(event, self.state)

    def hold(self) -> None:
        """Begin no more requests until `release`."""
        self._holds += 1
        self.on(FlowEvent.HOLD)
        if self.round is not RUNNING:
            self.update_reading()

    def release(self) -> None:
        self._holds -= 1
        if not self._holds:
            self.on(FlowEvent.RELEASE)
        self._go_on()

    def mute(self, ms: int) -> None:
        """Hold for a time; a longer one that is under way goes on."""
        if self.state is CLOSED:
            return
        if self._unmute is None:
            self._unmute = self._clock.callLater(ms / 1000, self._mute_over)
            self.hold()
        elif self._unmute.getTime() < self._clock.seconds() + ms / 1000:
            self._unmute.reset(ms / 1000)

    def _mute_over(self) -> None:
        self._unmute = None
        self.release()

    def update_reading(self) -> None:
        """Stop or start reading after changes of the state."""
        is_open = self.state is OPEN
        if is_open is not self.is_reading and self.state is not CLOSED:
            self.is_reading = is_open
            if is_open:
                self._transport.startReading()
            else:
                self._transport.stopReading()

    def leave(self) -> None:
        """End with the connection: no round follows."""
        self.on(FlowEvent.CLOSE)
        self._go_on = _nothing
        if self._unmute is not None:
            self._unmute.cancel()
            self._unmute = None
