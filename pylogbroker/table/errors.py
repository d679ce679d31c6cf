"""Errors of tables: the text names the cause and what to do."""

from __future__ import annotations

from pylogbroker.errors import PylogbrokerError


class TableError(PylogbrokerError):
    """A table cannot be read."""


class UndecodableRecord(TableError):
    """A key or value does not have the form that it is read in.

    `what` names the record and the reason; the text also has a remedy for programs.
    """

    def __init__(self, what: str, field: str) -> None:
        super().__init__(f'{what}. on_error="null" reads such contents as null; {field}="binary" reads the bytes')
        self.what = what
        self.field = field


class RecordsDeleted(TableError):
    """Records that are to be read were deleted."""
