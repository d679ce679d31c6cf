"""Helpers for coordination tree nodes."""

from __future__ import annotations

from collections.abc import Iterable

from pylogbroker.interfaces import Create, ITree, NodeExists


async def ensure(tree: ITree, paths: Iterable[str]) -> None:
    """Create missing nodes and parents."""
    all_paths = sorted({above for path in paths for above in _down_to(path)})
    while missing := [
        path for path, node in zip(all_paths, await tree.get_many(all_paths), strict=True) if node is None
    ]:
        try:
            await tree.commit([Create(path) for path in missing])
        except NodeExists:
            continue  # another client created one: check again


def parent(path: str) -> str:
    return path.rpartition("/")[0]


def _down_to(path: str) -> list[str]:
    names = path.split("/")
    return ["/".join(names[:length]) for length in range(2, len(names) + 1)]
