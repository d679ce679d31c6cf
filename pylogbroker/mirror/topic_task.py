"""A task of a mirror that concerns its topics, such as their ACLs: it runs from time to time, and soon for new ones."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import attrs

from pylogbroker.mirror.wake_up import WakeUp


@attrs.define(eq=False, repr=False)
class TopicTask:
    """`work` gets the names of topics in the target, by those in the source. It runs never if `interval` is 0."""

    name: str
    interval: float
    wake_up: WakeUp
    _work: Callable[[Mapping[str, str]], Awaitable[object]]
    _followed: frozenset[str] = frozenset()

    def is_due(self, topics: Mapping[str, str]) -> bool:
        """Return whether the last run was without one of these topics."""
        return self.interval > 0 and not self._followed.issuperset(topics)

    async def run(self, topics: Mapping[str, str]) -> None:
        if topics:
            names = frozenset(topics)
            await self._work(topics)
            self._followed = names
