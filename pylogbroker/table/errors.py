"""Errors of tables: the text names the cause and what to do."""

from __future__ import annotations

from pylogbroker.errors import PylogbrokerError


class TableError(PylogbrokerError):
    """A table cannot be read."""


class UndecodableRecord(TableError):
    """A key or value does not have the form that it is read in."""


class RecordsDeleted(TableError):
    """Records that are to be read were deleted."""
