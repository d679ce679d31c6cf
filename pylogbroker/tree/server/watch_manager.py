"""Watches of all connections.

| watch                | set by                 | called for                                       | ends with      |
|----------------------|------------------------|--------------------------------------------------|----------------|
| DATA                 | getData, exists        | creation, change, deletion of the node           | the first call |
| CHILDREN             | getChildren            | a child's creation or deletion, the deletion     | the first call |
| PERSISTENT           | addWatch, persistent   | all of the above                                 | removeWatches  |
| RECURSIVE            | addWatch, recursive    | creation, change, deletion of the node and below | removeWatches  |

A watcher hears of an event once, however many of its watches match.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum, auto
from typing import Protocol, TypeVar

import attrs

from pylogbroker.tree.rows import split
from pylogbroker.tree.server.messages import WatcherType
from pylogbroker.tree.transactions import EventType, TreeEvent

K = TypeVar("K")
V = TypeVar("V")


class Watcher(Protocol):
    def send_event(self, event: TreeEvent) -> None: ...


class WatchKind(Enum):
    DATA = auto()
    CHILDREN = auto()
    PERSISTENT = auto()
    RECURSIVE = auto()


_LASTING = (WatchKind.PERSISTENT, WatchKind.RECURSIVE)
_KINDS_OF_EVENT = {
    EventType.CREATED: (WatchKind.DATA, WatchKind.PERSISTENT),
    EventType.CHANGED: (WatchKind.DATA, WatchKind.PERSISTENT),
    EventType.DELETED: (WatchKind.DATA, WatchKind.CHILDREN, WatchKind.PERSISTENT),
    EventType.CHILDREN: (WatchKind.CHILDREN, WatchKind.PERSISTENT),
}
_KINDS_OF_TYPE = {
    WatcherType.DATA: (WatchKind.DATA,),
    WatcherType.CHILDREN: (WatchKind.CHILDREN,),
    WatcherType.ANY: tuple(WatchKind),
}
_Key = tuple[WatchKind, str]


@attrs.define
class WatchManager:
    _watchers: dict[_Key, dict[Watcher, None]] = attrs.field(factory=dict, init=False)
    _keys: dict[Watcher, dict[_Key, None]] = attrs.field(factory=dict, init=False)

    def add(self, watcher: Watcher, kind: WatchKind, path: str) -> None:
        self._watchers.setdefault((kind, path), {})[watcher] = None
        self._keys.setdefault(watcher, {})[kind, path] = None

    def has(self, watcher: Watcher, path: str, kind: WatcherType) -> bool:
        keys = self._keys.get(watcher, {})
        return any((watch_kind, path) in keys for watch_kind in _KINDS_OF_TYPE[kind])

    def count(self, watcher: Watcher) -> int:
        return len(self._keys.get(watcher, ()))

    def remove(self, watcher: Watcher, path: str, kind: WatcherType) -> None:
        for watch_kind in _KINDS_OF_TYPE[kind]:
            self._forget(watcher, (watch_kind, path))

    def remove_all(self, watcher: Watcher) -> None:
        for key in tuple(self._keys.get(watcher, ())):
            self._forget(watcher, key)

    def fire(self, events: Sequence[TreeEvent]) -> None:
        if self._watchers:
            for event in events:
                self._fire(event)

    def _fire(self, event: TreeEvent) -> None:
        called: dict[Watcher, None] = {}
        for key in _matching(event):
            watchers = tuple(self._watchers.get(key, ()))
            called |= dict.fromkeys(watchers)
            if key[0] not in _LASTING:
                for watcher in watchers:
                    self._forget(watcher, key)
        for watcher in called:
            watcher.send_event(event)

    def _forget(self, watcher: Watcher, key: _Key) -> None:
        _discard(self._watchers, key, watcher)
        _discard(self._keys, watcher, key)


def _discard(table: dict[K, dict[V, None]], key: K, value: V) -> None:
    values = table.get(key, {})
    values.pop(value, None)
    if not values:
        table.pop(key, None)


def _matching(event: TreeEvent) -> Iterator[_Key]:
    for kind in _KINDS_OF_EVENT[event.type]:
        yield kind, event.path
    if event.type is not EventType.CHILDREN:
        path = event.path
        while path != "/":
            yield WatchKind.RECURSIVE, path
            path = split(path)[0]
        yield WatchKind.RECURSIVE, "/"
