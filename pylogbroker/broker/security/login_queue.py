"""Queue of credentials to check, which takes milliseconds each: in threads of their own, and one address after another.

So a flood of passwords delays neither producers, whose syncs have other threads, nor the logins of other addresses.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import attrs
from twisted.internet.defer import Deferred, fail

from pylogbroker.broker.runtime.resources import InThread
from pylogbroker.errors import ProtocolViolation

LOGIN_THREADS: Final = 2
WAITING_PER_HOST_MAX: Final = 200
"""Logins of one address that wait for a thread."""


class TooManyLogins(ProtocolViolation):
    """Other logins of the same address wait; the client may connect again."""


@attrs.frozen(eq=False, repr=False)
class _Call:
    function: Callable[[], Any]
    done: Deferred[Any]


@attrs.define(eq=False, repr=False)
class LoginQueue:
    _in_thread: InThread
    _running: int = 0
    _waiting: dict[str, deque[_Call]] = attrs.field(factory=dict)  # by address, in the order in which they are served

    def run(self, host: str, function: Callable[..., Any], *arguments: Any) -> Deferred[Any]:
        """Call a function in a thread, after one of each other address that waits; a result may be cancelled.

        The result is TooManyLogins if too many wait.
        """
        waiting = self._waiting.get(host, deque())
        if len(waiting) >= WAITING_PER_HOST_MAX:
            return fail(TooManyLogins(f"{WAITING_PER_HOST_MAX} logins of {host} wait already"))
        done: Deferred[Any] = Deferred()
        waiting.append(_Call(partial(function, *arguments), done))
        self._waiting[host] = waiting
        self._start()
        return done

    def _start(self) -> None:
        while self._waiting and self._running < LOGIN_THREADS:
            host, calls = next(iter(self._waiting.items()))
            del self._waiting[host]
            call = calls.popleft()
            if calls:
                self._waiting[host] = calls  # behind the other addresses
            if not call.done.called:  # else cancelled
                self._running += 1
                self._in_thread(call.function).addBoth(self._returned, call.done)

    def _returned(self, result: Any, done: Deferred[Any]) -> None:
        self._running -= 1
        if not done.called:  # else cancelled while it ran
            done.callback(result)
        self._start()
