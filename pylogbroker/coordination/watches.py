"""Watches on a tree's nodes: callbacks that are called once, after a change."""

from __future__ import annotations

from collections import defaultdict

import attrs
from twisted.logger import Logger

from pylogbroker.coordination.transactions import Effect
from pylogbroker.interfaces import Changed, Watch

log = Logger()
_Waiting = defaultdict[str, list[Watch]]


def _nobody() -> _Waiting:
    return defaultdict(list)


@attrs.define
class Watches:
    """Registered watches on nodes and on nodes' children."""

    _nodes: _Waiting = attrs.field(init=False, factory=_nobody)
    _children: _Waiting = attrs.field(init=False, factory=_nobody)

    def on_node(self, path: str, watch: Watch | None) -> None:
        """Call `watch` when the node is created, set or deleted."""
        if watch is not None:
            self._nodes[path].append(watch)

    def on_children(self, path: str, watch: Watch | None) -> None:
        """Call `watch` when the node gains or loses a child, or is deleted."""
        if watch is not None:
            self._children[path].append(watch)

    def fire(self, effect: Effect) -> None:
        """Call and remove the watches that the effect fires."""
        for path in effect.changed_nodes:
            _tell(self._nodes.pop(path, []), path)
        for path in effect.changed_children:
            _tell(self._children.pop(path, []), path)

    def forget(self) -> None:
        self._nodes.clear()
        self._children.clear()


def _tell(watches: list[Watch], path: str) -> None:
    for watch in watches:
        try:
            watch(Changed(path))
        except Exception:  # the other watches must still be called
            log.failure("A watch on {path} failed", path=path)
