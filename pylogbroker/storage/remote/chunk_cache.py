"""Cache of what was read from a remote storage, bounded in bytes; the least recently used goes first.

Several workers use it. Those that need the same value at the same time wait for one read.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import attrs

T = TypeVar("T")


@attrs.define(eq=False, repr=False)
class _Load:
    """A read under way."""

    done: threading.Event = attrs.field(factory=threading.Event)
    value: Any = None
    error: BaseException | None = None


@attrs.define(eq=False, repr=False)
class ChunkCache:
    bytes_max: int
    held: int = attrs.field(default=0, init=False)
    hits: int = attrs.field(default=0, init=False)
    misses: int = attrs.field(default=0, init=False)
    _values: dict[Hashable, tuple[Any, int]] = attrs.field(factory=dict, init=False)  # with weights, oldest first
    _loads: dict[Hashable, _Load] = attrs.field(factory=dict, init=False)
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)

    def get(self, key: Hashable, load: Callable[[], tuple[T, int]]) -> T:
        """Return the value of a key; `load` returns it with its weight. Blocks; raises what `load` raises."""
        with self._lock:
            held = self._values.pop(key, None)
            if held is not None:
                self._values[key] = held
                self.hits += 1
                return held[0]  # type: ignore[no-any-return]
            current = self._loads.get(key)
            is_first = current is None
            if current is None:
                current = self._loads[key] = _Load()
                self.misses += 1
        if not is_first:
            current.done.wait()
            if current.error is not None:
                raise current.error
            return current.value  # type: ignore[no-any-return]
        try:
            value, weight = load()
        except BaseException as error:
            current.error = error
            raise
        else:
            current.value = value
            self.keep(key, value, weight)
            return value
        finally:
            with self._lock:
                self._loads.pop(key, None)
            current.done.set()

    def has(self, key: Hashable) -> bool:
        return key in self._values

    def keep(self, key: Hashable, value: object, weight: int) -> None:
        """Add a value; drop others to keep the limit. A value above the limit is not kept."""
        with self._lock:
            former = self._values.pop(key, None)
            if former is not None:
                self.held -= former[1]
            if weight > self.bytes_max:
                return
            while self.held + weight > self.bytes_max:
                oldest = next(iter(self._values))
                self.held -= self._values.pop(oldest)[1]
            self._values[key] = value, weight
            self.held += weight
