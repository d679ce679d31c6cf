"""Values that are left after a replay: a record without a value takes away the one before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pylogbroker.wire import WireMessage
from pylogbroker.wire.versioned_messages import decode

M = TypeVar("M", bound=WireMessage)


def latest(kind: type[M], value: bytes | None) -> M | None:
    return None if value is None else decode(kind, value)


def put(
    values: dict[str, Any],
    name: str,
    value: bytes | None,
    kind: type[Any],
    check: Callable[[Any], None] = lambda decoded: None,
) -> None:
    """Keep the value of a name, which `check` rejects by an error, or take the former one away."""
    if value is None:
        values.pop(name, None)
        return
    decoded = decode(kind, value)
    check(decoded)
    values[name] = decoded
