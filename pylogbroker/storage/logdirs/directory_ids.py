"""Which log directory lies where: what is found at a start, compared with what was there before.

Each directory has an id (`directory.id` of meta.properties), and the coordination tree remembers which one lay at which
path of `log.dirs`:

| remembered | found           |                                                                            |
|------------|-----------------|----------------------------------------------------------------------------|
| X          | X               | as it was                                                                  |
| X          | Y, known        | directories that changed places                                            |
| nothing    | any, or none    | a new one                                                                  |
| X          | none, or Y, new | not the directory: it may not be mounted, and this is the place it goes to |

What is remembered of a path ends when the path is not in `log.dirs` any more.
"""

from __future__ import annotations

from collections.abc import Mapping


def unexpected_directories(found: Mapping[str, str | None], remembered: Mapping[str, str]) -> dict[str, str]:
    """The paths where another directory should be, each with that one's id."""
    known = set(remembered.values())
    return {path: remembered[path] for path, own in found.items() if path in remembered and own not in known}


def expected_directory_ids(found: Mapping[str, str | None], remembered: Mapping[str, str]) -> dict[str, str]:
    """What the next start should find, by all paths; `found` has None for what is offline.

    An id that is missing stays expected: at its path or, if another directory was found there, at one without any.
    """
    present = {path: own for path, own in found.items() if own is not None}
    missing = {path: own for path, own in remembered.items() if path in found and own not in present.values()}
    kept = {path: own for path, own in missing.items() if path not in present}
    moved = [own for path, own in missing.items() if path in present]
    free = [path for path in found if path not in present and path not in kept]
    return {**present, **kept, **dict(zip(free, moved, strict=False))}
