"""Size estimate of a message without encoding, by generated functions."""

from __future__ import annotations

from collections.abc import Callable

from pylogbroker.wire.schema import fields_of
from pylogbroker.wire.source import SourceText


def counter(cls: type, enough: int) -> Callable[[object], int]:
    """Return a function that counts the structs in a message's arrays, up to about `enough`."""
    source = SourceText({})
    with source.function("count(message)"):
        source.line("total = 0")
        _add(source, cls, "message", 1, enough)
        source.line("return total")
    return source.compile("count", f"count {cls.__name__}")


def _add(source: SourceText, cls: type, value: str, depth: int, enough: int) -> None:
    for field in fields_of(cls):
        if not field.is_array or not isinstance(field.kind, type):
            continue
        array = f"{value}.{field.name} or ()"
        if any(inner.is_array and isinstance(inner.kind, type) for inner in fields_of(field.kind)):
            with source.block(f"for item_{depth} in {array}"):
                source.line("total += 1")
                with source.block(f"if total > {enough}"):
                    source.line("return total")
                _add(source, field.kind, f"item_{depth}", depth + 1, enough)
        else:
            source.line(f"total += len({array})")
