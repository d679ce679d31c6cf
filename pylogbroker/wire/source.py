"""Functions made of source text: what the compilers of decoders and encoders write into.

A `Source` is the text of one module, function by function, and the objects that its global names stand for.
The text stays with `linecache`, so tracebacks, debuggers and profilers show its lines.
"""

import linecache
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import NoneType
from typing import Any, Final

STEP: Final = 128
_PLAIN: Final = frozenset((NoneType, bool, int, float, str, bytes, list))


def is_plain(value: Any) -> bool:
    """Whether an object can be written down in full; a list then is a new one wherever it is met."""
    return type(value) in _PLAIN


class SourceText:
    """Source text in the making."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        self._names = dict(names)
        self._whole: list[str] = []
        self._lines: list[str] = []
        self._indent = ""

    def line(self, text: str) -> None:
        """Add a line at the indentation of its block."""
        self._lines.append(f"{self._indent}{text}\n")

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Indent what is added below this head."""
        self.line(f"{head}:")
        outer, self._indent = self._indent, self._indent + "    "
        yield
        self._indent = outer

    def begin_steps(self, in_steps: bool) -> None:
        """In a function that works in steps, count them from here on."""
        if in_steps:
            self.line("steps = 0")
            with self.block("if steps"):  # a generator even if it has nothing to repeat
                self.line("yield")

    def step(self, *finish: str) -> None:
        """Something is done: after every `STEP` of them, and these statements, others may go on."""
        self.line("steps += 1")
        with self.block(f"if not steps % {STEP}"):
            for statement in finish:
                self.line(statement)
            self.line("yield")

    @contextmanager
    def function(self, signature: str) -> Iterator[None]:
        """Make what is added a function of the module, before the one that is being written, if any."""
        outer = self._lines, self._indent
        self._lines, self._indent = [], ""
        with self.block(f"def {signature}"):
            yield
        self._whole += self._lines
        self._lines, self._indent = outer

    def constant(self, text: str) -> str:
        """The name of what an expression gives, evaluated once, when the functions before it are made."""
        name = f"table_{len(self._whole)}"
        self._whole.append(f"{name} = {text}\n")
        return name

    def name(self, value: Any, wish: str) -> str:
        """The global name of an object: the one wished for, or if another object has it, one like it."""
        name, number = wish, 1
        while self._names.setdefault(name, value) is not value:
            name, number = f"{wish}_{number}", number + 1
        return name

    def literal(self, value: Any) -> str:
        """An expression for an object, which is the object itself unless it can be written down."""
        return repr(value) if is_plain(value) else self.name(value, f"default_{type(value).__name__}")

    def packing(self, method: str, codes: str) -> str:
        """The global name of a method of the `struct.Struct` of these codes."""
        name = f"{method}_{codes}".replace("?", "_")
        if name not in self._names:
            self._names[name] = getattr(struct.Struct(">" + codes), method)
        return name

    def compile(self, function: str, title: str) -> Callable[..., Any]:
        """Make the module of that title; one of its functions."""
        text, filename = "".join(self._whole), f"<{title}>"
        linecache.cache[filename] = len(text), None, text.splitlines(True), filename
        exec(compile(text, filename, "exec"), self._names)
        made: Callable[..., Any] = self._names[function]
        return made
