"""This broker's registration with the controllers, and its heartbeats: `KraftRegistration` has the states.

registering --BrokerRegistration--> fenced --BrokerHeartbeat every 2 s--> active --leave--> left
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Final
from uuid import UUID

import attrs
from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger

from pylogbroker.background import run_in_background
from pylogbroker.broker.kraft.quorum import Quorum
from pylogbroker.broker.runtime.resources import PeriodicCall, Runtime
from pylogbroker.errors import ErrorCode, KafkaError, StartupError
from pylogbroker.kraft.registration import KraftRegistration, RegistrationState
from pylogbroker.rpc.errors import ClientError, Closed
from pylogbroker.rpc.retries import Pauses
from pylogbroker.wire import WireError
from pylogbroker.wire.messages.broker_heartbeat import BrokerHeartbeatRequest

log = Logger()
_RETRY_SECONDS: Final = 0.5
_SHUTDOWN_SECONDS: Final = 0.1
_SILENT_SECONDS: Final = 5.0
"""A controlled shutdown ends when no controller has answered for so long: none would move leaderships away."""
_PURPOSE: Final = "heartbeats"
_WAITED_FOR: Final = {
    ErrorCode.DUPLICATE_BROKER_REGISTRATION: "another broker runs with this node.id; give each its own",
}
"""Reasons of errors after which a broker tries again."""
_ENDED: Final = (RegistrationState.LEFT, RegistrationState.REJECTED)


@attrs.define(eq=False, repr=False)
class BrokerLifecycle:
    """`published` returns the offset of the image; `on_registered` gets each new broker epoch.

    `on_rejected` gets the reason when the controllers do not take the broker, or do not take it again.
    """

    _registration: KraftRegistration
    _quorum: Quorum
    _runtime: Runtime
    _interval: float
    _published: Callable[[], int]
    on_registered: list[Callable[[int], None]] = attrs.field(factory=list, init=False)
    on_rejected: list[Callable[[str], None]] = attrs.field(factory=list, init=False)
    _failure: str = attrs.field(default="", init=False)
    """Reason why the broker must not start."""
    _answered: float = attrs.field(init=False)
    """Time of the last answer."""
    _last_code: ErrorCode = attrs.field(default=ErrorCode.NONE, init=False)
    """Of the last answer."""
    _pauses: Pauses = attrs.field(init=False)
    _waiting: list[Deferred[None]] = attrs.field(factory=list, init=False)
    """For the state ACTIVE, or an end."""
    _pause: Deferred[None] = attrs.field(factory=lambda: succeed(None), init=False)
    """Until the next request."""

    def __attrs_post_init__(self) -> None:
        self._pauses = Pauses(self._runtime.clock)
        self._answered = self._runtime.clock.seconds()

    @property
    def epoch(self) -> int:
        return self._registration.epoch

    @property
    def state(self) -> RegistrationState:
        return self._registration.state

    @property
    def is_active(self) -> bool:
        return self._registration.state is RegistrationState.ACTIVE

    async def start(self, seconds: float) -> None:
        """Register, and return when the broker is unfenced; raise StartupError after so many seconds."""
        run_in_background(log, self._run(), "the controllers hear nothing from this broker any more")
        unfenced: Deferred[None] = Deferred()
        self._waiting.append(unfenced)
        if seconds < inf:
            unfenced.addTimeout(seconds, self._runtime.clock, self._late)
        await unfenced
        if self._failure:
            raise StartupError(self._failure)
        if self._registration.state is RegistrationState.REJECTED:
            raise StartupError(self._registration.rejection)
        if not self.is_active:
            raise StartupError("it was stopped before the controllers had accepted it")

    def _late(self, result: object, seconds: float) -> None:
        why = f": {_WAITED_FOR[self._last_code]}" if self._last_code in _WAITED_FOR else ""
        raise StartupError(f"the controllers have not accepted this broker within {seconds:g} s{why}")

    async def leave(self, seconds: float) -> None:
        """Ask for a controlled shutdown, and return when the controller has moved this broker's leaderships.

        Return after so many seconds at the latest, and earlier if no controller answers.
        """
        left: Deferred[None] = Deferred()
        self._registration.leave()
        if self._registration.state is RegistrationState.LEFT or self._pauses.is_closed:
            return
        self._waiting.append(left)
        if not self._pause.called:
            self._pause.callback(None)
        left.addTimeout(seconds, self._runtime.clock, lambda result, after: None)
        watch = PeriodicCall(self._runtime.clock, self._end_if_silent, left)
        watch.start(1.0, now=False)
        try:
            await left
        finally:
            watch.stop()

    def _end_if_silent(self, left: Deferred[None]) -> None:
        if self._runtime.clock.seconds() - self._answered >= _SILENT_SECONDS and not left.called:
            log.warn("no controller answers: this broker stops, and its leaderships move when it is fenced")
            left.callback(None)

    def fail(self, reason: str) -> None:
        """Let a start that waits raise StartupError."""
        self._failure = reason
        self._answer()

    def offline_directories(self, ids: Sequence[UUID]) -> None:
        """Let heartbeats name the log directories that have failed."""
        self._registration.offline_directories = list(ids)

    def close(self) -> None:
        self._pauses.close()
        self._answer()

    async def _run(self) -> None:
        try:
            while self._registration.state not in _ENDED:
                self._pause = self._pauses.pause(await self._beat())
                await self._pause
        except Closed:
            return
        finally:
            self._answer()

    async def _beat(self) -> float:
        """Send the next request; return the seconds until the following one."""
        request = self._registration.request(self._published())
        if request is None:
            return 0.0
        before = self._registration.state
        try:
            answer = await self._quorum.send(_PURPOSE, request)
        except (ClientError, KafkaError, WireError) as error:  # an error in the answer of ApiVersions, too
            if self._runtime.may_log("heartbeats"):
                log.warn("the active controller cannot be reached: {why}", why=error)
            return _RETRY_SECONDS
        self._answered = self._runtime.clock.seconds()
        if isinstance(request, BrokerHeartbeatRequest):
            code = self._registration.heard(request, answer)
        else:
            code = self._registration.registered(answer)
            if code is ErrorCode.NONE:
                for call in self.on_registered:
                    call(self._registration.epoch)
        return self._after(before, code)

    def _after(self, before: RegistrationState, code: ErrorCode) -> float:
        self._last_code = code
        state = self._registration.state
        if code is not ErrorCode.NONE and self._runtime.may_log(f"registration {code.name}"):
            log.warn(
                "the active controller answers {code} to this broker, which is {state}",
                code=code.name,
                state=before.value,
            )
        if state is not before:
            log.info("membership in the cluster: {state}, broker epoch {epoch}", state=state.value, epoch=self.epoch)
        if state is RegistrationState.ACTIVE or state in _ENDED:
            self._answer()
        if state is RegistrationState.REJECTED:
            for call in self.on_rejected:
                call(self._registration.rejection)
        if state is RegistrationState.LEAVING:
            return _SHUTDOWN_SECONDS
        if code is not ErrorCode.NONE or state in (RegistrationState.FENCED, RegistrationState.REGISTERING):
            return min(_RETRY_SECONDS, self._interval)
        return self._interval

    def _answer(self) -> None:
        waiting, self._waiting = self._waiting, []
        for deferred in waiting:
            if not deferred.called:
                deferred.callback(None)
