"""Requests that repeat an earlier one of their connection, handled without decoding and encoding.

A client sends the same request over and over: a produce differs from the one before in its correlation id and its
records. After a usual answer, what is constant in request and answer is remembered as bytes. The usual path has all
rules. A repeated request checks what they depend on, and leaves what is unusual to it, with the same result.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol


class RepeatedRequest(Protocol):
    """Form of requests and their answers; `prefix` is how frames begin behind the correlation id."""

    @property
    def prefix(self) -> bytes: ...
    @property
    def is_over(self) -> bool:
        """True if no request will have this form any more; another one may be learned instead."""

    def answer_run(self, frames: Iterable[memoryview], /) -> list[bytes]:
        """Handle the first requests of `frames` that have this form; return their answers.

        The next one takes the usual path.
        """
