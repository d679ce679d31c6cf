"""What the consumers' two uses of the coordination tree have in common."""

from __future__ import annotations

from collections.abc import Iterable

from pylogbroker.interfaces import Create, ITree, NodeExists


async def ensure(tree: ITree, paths: Iterable[str]) -> None:
    """Create the nodes, and those above them, that do not exist."""
    wanted = sorted({above for path in paths for above in _down_to(path)})
    while missing := [path for path, node in zip(wanted, await tree.get_many(wanted), strict=True) if node is None]:
        try:
            await tree.commit([Create(path) for path in missing])
        except NodeExists:
            continue  # somebody else has created one meanwhile: see what is left


def parent(path: str) -> str:
    """The node above."""
    return path.rpartition("/")[0]


def _down_to(path: str) -> list[str]:
    """The nodes on the way from the root to the path, which is the last one."""
    names = path.split("/")
    return ["/".join(names[:length]) for length in range(2, len(names) + 1)]
