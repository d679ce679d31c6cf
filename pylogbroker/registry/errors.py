"""Errors with Confluent's codes: the first three digits are the HTTP status."""

from __future__ import annotations

from typing import Self


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
    def no_schema(cls, schema_id: int | None = None) -> Self:
        return cls(40403, "Schema not found" if schema_id is None else f"Schema {schema_id} not found")

    @classmethod
    def incompatible(cls, subject: str, problems: list[str]) -> Self:
        return cls(
            409,
            f'Schema being registered is incompatible with an earlier schema for subject "{subject}", '
            f"details: [{', '.join(problems)}]",
        )

    @classmethod
    def invalid_schema(cls, reason: object) -> Self:
        return cls(42201, f"Invalid schema: {reason}")

    @classmethod
    def invalid_version(cls, version: str) -> Self:
        return cls(
            42202,
            f"The specified version '{version}' is not a valid version id. "
            'Allowed values are between [1, 2^31-1] and the string "latest"',
        )

    @classmethod
    def not_permitted(cls, reason: str) -> Self:
        return cls(42205, reason)
