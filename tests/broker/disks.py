"""Disks that fail, for tests: what one call of the operating system does on the files below a directory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch


@contextmanager
def broken(call: str, directory: str, fault: Callable[..., Any]) -> Iterator[None]:
    """While the block runs, `fault` is called in place of `os.<call>` for open files below `directory`.

    It is called with the function itself, and its arguments.
    """
    real = getattr(os, call)
    inside = os.path.realpath(directory) + "/"

    def perhaps(fd: int, *arguments: Any) -> Any:
        if os.readlink(f"/proc/self/fd/{fd}").startswith(inside):
            return fault(real, fd, *arguments)
        return real(fd, *arguments)

    with patch.object(os, call, perhaps):
        yield


def failing(code: int) -> Callable[..., Any]:
    """A fault that is an error of that number."""

    def fault(real: Callable[..., Any], *arguments: Any) -> Any:
        raise OSError(code, os.strerror(code))

    return fault
