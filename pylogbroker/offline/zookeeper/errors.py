"""Error of files that cannot be read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pylogbroker.errors import PylogbrokerError
from pylogbroker.tree.jute import Malformed


class BadFile(PylogbrokerError):
    """Damaged file, or not of the kind that its name says."""


@contextmanager
def malformed_as_bad_file() -> Iterator[None]:
    """Raise BadFile where a value of the file is Malformed."""
    try:
        yield
    except Malformed as error:
        raise BadFile(str(error)) from error
