"""Services that a handler gets: those that its parameter `services` declares, and no others.

With `services: HasPartitions`, `services.partitions` is there, and `services.scram` raises AttributeError.

The annotation is the name of a protocol: one of `pylogbroker.broker.services`, or a class of the handler's module that
joins several. `object` declares none.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from functools import cache
from typing import Any, NoReturn


class _Selected:
    """Base of the classes with one slot for each service. Reading a slot costs no call."""

    __slots__ = ()

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is read-only: {name!r} cannot be set")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is read-only: {name!r} cannot be deleted")


def declared_services(handle: Callable[..., Any]) -> tuple[str, ...]:
    """Return the sorted names of the services that a handler declares; none without a declaration.

    The other annotations are not evaluated: most of them need modules that are imported for type checkers alone.
    """
    annotation = handle.__annotations__.get("services", object)
    if isinstance(annotation, str):
        names = vars(builtins) | handle.__globals__
        annotation = names[annotation]
    return tuple(sorted({name for base in annotation.__mro__ for name in vars(base) if not name.startswith("_")}))


def select_services(services: Any, names: tuple[str, ...]) -> Any:
    """Return an object that has some of a broker's services, as they are now, and nothing else."""
    selected = _class_of(names)()
    for name in names:
        object.__setattr__(selected, name, getattr(services, name))
    return selected


@cache
def _class_of(names: tuple[str, ...]) -> Callable[[], Any]:
    return type(f"Services({', '.join(names)})", (_Selected,), {"__slots__": names})
