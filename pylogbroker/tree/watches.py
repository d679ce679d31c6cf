"""Watches on a tree's nodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

import attrs
from twisted.logger import Logger

from pylogbroker.interfaces import Changed, Watch

log = Logger()
_Waiting = defaultdict[str, list[Watch]]


def _no_watches() -> _Waiting:
    return defaultdict(list)


@attrs.define
class Watches:
    _nodes: _Waiting = attrs.field(init=False, factory=_no_watches)
    _children: _Waiting = attrs.field(init=False, factory=_no_watches)

    def on_node(self, path: str, watch: Watch | None) -> None:
        """Call `watch` once, on a creation, change or deletion."""
        if watch is not None:
            self._nodes[path].append(watch)

    def on_children(self, path: str, watch: Watch | None) -> None:
        """Call `watch` once, when the node gains or loses a child, or is deleted."""
        if watch is not None:
            self._children[path].append(watch)

    def fire(self, changed_nodes: Collection[str], changed_children: Collection[str]) -> None:
        """Call and remove watches on changed nodes, then on nodes with changed children."""
        for waiting, changed in ((self._nodes, changed_nodes), (self._children, changed_children)):
            for path in filter(waiting.__contains__, changed) if waiting else ():
                notify(waiting.pop(path), path)

    def forget(self) -> None:
        self._nodes.clear()
        self._children.clear()


def notify(watches: list[Watch], path: str) -> None:
    for watch in watches:
        try:
            watch(Changed(path))
        except Exception:  # other watches must be called
            log.failure("A watch on {path} failed", path=path)
