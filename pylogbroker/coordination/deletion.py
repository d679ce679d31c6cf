"""Wait until another session's node is gone."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from pylogbroker.interfaces import Changed, ITree


async def wait_until_deleted(tree: ITree, path: str, clock: IReactorTime, deadline: float) -> bool:
    """Return whether the node is gone before the clock shows `deadline`, in seconds."""
    while True:
        changed: Deferred[None] = Deferred()

        def wake(change: Changed | None = None, waiting: Deferred[None] = changed) -> None:
            if not waiting.called:
                waiting.callback(None)

        if await tree.exists(path, wake) is None:
            return True
        remaining_seconds = deadline - clock.seconds()
        if remaining_seconds <= 0:
            return False
        timer = clock.callLater(remaining_seconds, wake)
        try:
            await changed
        finally:
            if timer.active():
                timer.cancel()
