"""Errors with Confluent's codes: the first three digits are the HTTP status."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Self

_BACKEND_FAILED: Final = 50001
_TIMED_OUT: Final = 50002
_NOT_FORWARDED: Final = 50003
_NO_PRIMARY: Final = 50004


class RegistryError(Exception):
    """An error that a client gets as `{"error_code": ..., "message": ...}`."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code

    @property
    def status(self) -> int:
        return self.code if self.code < 1000 else self.code // 100

    @classmethod
    def no_subject(cls, subject: str) -> Self:
        return cls(40401, f"Subject '{subject}' not found.")

    @classmethod
    def no_version(cls, version: object) -> Self:
        return cls(40402, f"Version {version} not found.")

    @classmethod
    def no_schema(cls, key: object = None) -> Self:
        return cls(40403, "Schema not found" if key is None else f"Schema {key} not found")

    @classmethod
    def subject_deleted(cls, subject: str) -> Self:
        return cls(40404, f"Subject '{subject}' was soft deleted.Set permanent=true to delete permanently")

    @classmethod
    def subject_not_deleted(cls, subject: str) -> Self:
        return cls(40405, f"Subject '{subject}' was not deleted first before being permanently deleted")

    @classmethod
    def version_deleted(cls, subject: str, version: int) -> Self:
        return cls(
            40406, f"Subject '{subject}' Version {version} was soft deleted.Set permanent=true to delete permanently"
        )

    @classmethod
    def version_not_deleted(cls, subject: str, version: int) -> Self:
        return cls(
            40407, f"Subject '{subject}' Version {version} was not deleted first before being permanently deleted"
        )

    @classmethod
    def no_level(cls, subject: str | None) -> Self:
        return cls(40408, f"Subject '{subject}' does not have subject-level compatibility configured")

    @classmethod
    def no_mode(cls, subject: str | None) -> Self:
        return cls(40409, f"Subject '{subject}' does not have subject-level mode configured")

    @classmethod
    def incompatible(cls, subject: str, problems: list[str]) -> Self:
        return cls(
            409,
            f'Schema being registered is incompatible with an earlier schema for subject "{subject}", '
            f"details: [{', '.join(problems)}]",
        )

    @classmethod
    def unprocessable(cls, reason: str) -> Self:
        """Return the error of a body that is not that of the request."""
        return cls(422, reason)

    @classmethod
    def invalid_schema(cls, reason: object) -> Self:
        return cls(42201, f"Invalid schema: {reason}")

    @classmethod
    def empty_schema(cls) -> Self:
        return cls(42201, "Empty schema")

    @classmethod
    def invalid_version(cls, version: str) -> Self:
        return cls(
            42202,
            f"The specified version '{version}' is not a valid version id. "
            'Allowed values are between [1, 2^31-1] and the string "latest"',
        )

    @classmethod
    def invalid_level(cls, levels: Sequence[str]) -> Self:
        *most, last = (level.lower() for level in levels)
        return cls(42203, f"Invalid compatibility level. Valid values are {', '.join(most)}, and {last}")

    @classmethod
    def invalid_mode(cls, reason: str) -> Self:
        return cls(42204, f"Invalid mode. {reason}")

    @classmethod
    def not_permitted(cls, reason: str) -> Self:
        return cls(42205, reason)

    @classmethod
    def referenced(cls, subject: str, version: int) -> Self:
        key = f"{{magic=1,keytype=SCHEMA,subject={subject},version={version}}}"
        return cls(42206, f"One or more references exist to the schema {key}.")

    @classmethod
    def invalid_subject(cls, subject: str) -> Self:
        return cls(42208, f"The specified subject '{subject}' is not a valid subject.")

    @classmethod
    def too_large(cls, reason: str) -> Self:
        return cls(42209, reason)

    @classmethod
    def invalid_rules(cls, reason: str) -> Self:
        return cls(42210, reason)

    @classmethod
    def context_not_empty(cls, context: str) -> Self:
        return cls(42211, f"The specified context '{context}' is not empty.")

    @classmethod
    def backend_failed(cls, reason: object) -> Self:
        return cls(_BACKEND_FAILED, f"Error in the backend datastore: {reason}")

    @classmethod
    def timed_out(cls, reason: str) -> Self:
        return cls(_TIMED_OUT, reason)

    @classmethod
    def not_forwarded(cls, reason: str) -> Self:
        return cls(_NOT_FORWARDED, reason)

    @classmethod
    def no_primary(cls, reason: str) -> Self:
        return cls(_NO_PRIMARY, reason)
