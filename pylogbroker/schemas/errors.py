"""Errors of schemas: the text names the cause and what to do."""

from __future__ import annotations

from pylogbroker.errors import PylogbrokerError


class SchemaError(PylogbrokerError):
    """Something about a schema is wrong."""


class RegistryUnavailable(SchemaError):
    """The registry did not answer, or failed: asking again may help."""


class RegistryDenied(SchemaError):
    """The registry rejects the credentials, or their rights."""


class UnknownSchema(SchemaError):
    """The registry has no such schema, subject or version."""


class InvalidSchema(SchemaError):
    """A schema cannot be used: its text is wrong, or it is rejected."""


class Undecodable(SchemaError):
    """Content does not fit its schema."""


class Unencodable(SchemaError):
    """JSON does not fit a schema; `path` is the field, empty for the whole."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"field {path}: {reason}" if path else reason)
        self.path = path
