"""Errors of schemas: the text names the cause and what to do."""

from __future__ import annotations

from typing import Final

from pylogbroker.errors import PylogbrokerError

_NAME_MAX: Final = 60
_PATH_MAX: Final = 300


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
        super().__init__(path, reason)
        self.path = path
        self._reason = reason

    def __str__(self) -> str:
        if not self.path:
            return self._reason
        path = self.path if len(self.path) <= _PATH_MAX else f"{self.path[:_PATH_MAX]}…"
        return f"field {path}: {self._reason}"

    def below(self, place: str | int) -> Unencodable:
        """Return the error with its path below a field, a member or an item."""
        name = f"[{place}]" if isinstance(place, int) else place
        step = name if len(name) <= _NAME_MAX else f"{name[:_NAME_MAX]}…"
        self.path = step + ("." if self.path and not self.path.startswith("[") else "") + self.path
        return self
