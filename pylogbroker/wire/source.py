"""Generated functions: source text, compiled with the objects of its global names.

The text is kept in `linecache`, for tracebacks, debuggers and profilers.
"""

import linecache
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import NoneType
from typing import Any, Final

from pylogbroker.long_loops import give_way

STEP: Final = 128
_PLAIN: Final = frozenset((NoneType, bool, int, float, str, bytes, list))


def is_plain(value: Any) -> bool:
    return type(value) in _PLAIN


class SourceText:
    def __init__(self, names: Mapping[str, Any]) -> None:
        self._names = dict(names)
        self._whole: list[str] = []
        self._lines: list[str] = []
        self._indent = ""

    def line(self, text: str) -> None:
        self._lines.append(f"{self._indent}{text}\n")

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.line(f"{head}:")
        outer, self._indent = self._indent, self._indent + "    "
        yield
        self._indent = outer

    def begin_steps(self, in_steps: bool) -> None:
        if in_steps:
            self.line("steps = 0")

    def step(self, *finish: str) -> None:
        """Count a step; after every `STEP`, run the `finish` statements and give way."""
        self.line("steps += 1")
        with self.block(f"if not steps % {STEP}"):
            for statement in finish:
                self.line(statement)
            self.line(f"await {self.name(give_way, 'give_way')}()")

    @contextmanager
    def function(self, signature: str, gives_way: bool = False) -> Iterator[None]:
        """Make the lines of this context a function, or coroutine function, before the current one."""
        outer = self._lines, self._indent
        self._lines, self._indent = [], ""
        with self.block(f"{'async ' * gives_way}def {signature}"):
            yield
        self._whole += self._lines
        self._lines, self._indent = outer

    def constant(self, text: str) -> str:
        name = f"table_{len(self._whole)}"
        self._whole.append(f"{name} = {text}\n")
        return name

    def name(self, value: Any, wish: str) -> str:
        """Name an object globally: `wish`, or a variant if it is taken."""
        name, number = wish, 1
        while self._names.setdefault(name, value) is not value:
            name, number = f"{wish}_{number}", number + 1
        return name

    def literal(self, value: Any) -> str:
        return repr(value) if is_plain(value) else self.name(value, f"default_{type(value).__name__}")

    def packing(self, method: str, codes: str) -> str:
        name = f"{method}_{codes}".replace("?", "_")
        if name not in self._names:
            self._names[name] = getattr(struct.Struct(">" + codes), method)
        return name

    def compile(self, function: str, title: str) -> Callable[..., Any]:
        text, filename = "".join(self._whole), f"<{title}>"
        linecache.cache[filename] = len(text), None, text.splitlines(True), filename
        exec(compile(text, filename, "exec"), self._names)
        made: Callable[..., Any] = self._names[function]
        return made
