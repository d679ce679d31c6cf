"""Wait for the deletion of a node."""

from __future__ import annotations

from twisted.internet.interfaces import IReactorTime

from pylogbroker.interfaces import ITree
from pylogbroker.tree.awaited_change import AwaitedChange


async def wait_until_deleted(tree: ITree, path: str, clock: IReactorTime, deadline: float) -> bool:
    """Return whether the node is gone before the clock shows `deadline`, in seconds."""
    while True:
        change = AwaitedChange()
        if await tree.exists(path, change) is None:
            return True
        if clock.seconds() >= deadline:
            return False
        await change.wait(clock, deadline)
