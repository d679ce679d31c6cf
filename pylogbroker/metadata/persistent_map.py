"""Immutable mapping in key order; changed copies share its structure.

    chunks   {a.., b..}   {f.., k..}   {m.., z..}     dicts of at most CHUNK_ENTRIES_MAX entries, in key order
    firsts    -            f            m             first key of each chunk; the first one's is not used

A change copies the two tuples and the changed chunks: of 10,000 entries about 300 references. A lookup is a binary
search and a dict lookup. Keys must be comparable.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import ItemsView, Iterable, Iterator, Mapping, ValuesView
from typing import Any, Final, Generic, Protocol, TypeVar, overload


class _Comparable(Protocol):
    def __lt__(self, other: Any, /) -> bool: ...

    def __hash__(self) -> int: ...


K = TypeVar("K", bound=_Comparable)
V = TypeVar("V")
D = TypeVar("D")
CHUNK_ENTRIES_MAX: Final = 128


class PersistentMap(Mapping[K, V], Generic[K, V]):
    __slots__ = ("_chunks", "_firsts", "_length")

    def __init__(self, entries: Mapping[K, V] | Iterable[tuple[K, V]] = ()) -> None:
        chunks = list(_split(_sorted(dict(entries))))
        self._set(chunks, _firsts(chunks), sum(map(len, chunks)))

    def _set(self, chunks: list[dict[K, V]], firsts: list[K], length: int) -> None:
        self._chunks: tuple[dict[K, V], ...] = tuple(chunks) or ({},)
        self._firsts: tuple[Any, ...] = tuple(firsts) or (None,)
        self._length = length

    def changed(self, changes: Mapping[K, V | None]) -> PersistentMap[K, V]:
        """Return a changed copy; None removes an entry."""
        if not changes:
            return self
        touched: dict[int, dict[K, V]] = {}
        for key, value in changes.items():
            at = self._find(key)
            chunk = touched.get(at)
            if chunk is None:
                chunk = touched[at] = self._chunks[at].copy()
            if value is None:
                chunk.pop(key, None)
            else:
                chunk[key] = value
        chunks, firsts, length = list(self._chunks), list(self._firsts), self._length
        for at in sorted(touched, reverse=True):
            replaced = list(_split(_sorted(touched[at])))
            length += len(touched[at]) - len(chunks[at])
            chunks[at : at + 1] = replaced
            firsts[at : at + 1] = _firsts(replaced)
        copy: PersistentMap[K, V] = PersistentMap.__new__(PersistentMap)
        copy._set(chunks, firsts, length)
        return copy

    def chunks(self) -> tuple[Mapping[K, V], ...]:
        return self._chunks

    def _find(self, key: Any) -> int:
        return bisect_right(self._firsts, key, 1) - 1

    def __getitem__(self, key: K) -> V:
        return self._chunks[self._find(key)][key]

    @overload
    def get(self, key: K, /) -> V | None: ...

    @overload
    def get(self, key: K, /, default: V | D) -> V | D: ...

    def get(self, key: K, /, default: Any = None) -> Any:
        return self._chunks[self._find(key)].get(key, default)

    def __contains__(self, key: object) -> bool:
        return key in self._chunks[self._find(key)]

    def __iter__(self) -> Iterator[K]:
        for chunk in self._chunks:
            yield from chunk

    def __len__(self) -> int:
        return self._length

    def items(self) -> ItemsView[K, V]:
        return _Items(self)

    def values(self) -> ValuesView[V]:
        return _Values(self)

    def __repr__(self) -> str:
        return f"PersistentMap({dict(self)!r})"


class _Items(ItemsView[K, V]):
    """Entries, without a lookup for each."""

    _mapping: PersistentMap[K, V]

    def __iter__(self) -> Iterator[tuple[K, V]]:
        for chunk in self._mapping.chunks():
            yield from chunk.items()


class _Values(ValuesView[V]):
    """Values, without a lookup for each."""

    _mapping: PersistentMap[Any, V]

    def __iter__(self) -> Iterator[V]:
        for chunk in self._mapping.chunks():
            yield from chunk.values()


def _firsts(chunks: Iterable[dict[K, V]]) -> list[K]:
    return [next(iter(chunk)) for chunk in chunks]


def _sorted(chunk: dict[K, V]) -> dict[K, V]:
    """Return the chunk in key order: an added entry may be out of order."""
    keys = list(chunk)
    ordered = sorted(keys)
    return chunk if keys == ordered else {key: chunk[key] for key in ordered}


def _split(chunk: dict[K, V]) -> Iterator[dict[K, V]]:
    if 0 < len(chunk) <= CHUNK_ENTRIES_MAX:
        yield chunk
        return
    entries = list(chunk.items())
    size = CHUNK_ENTRIES_MAX * 3 // 4
    for start in range(0, len(entries), size):
        yield dict(entries[start : start + size])
