"""Subjects of a topic's schemas, by the strategies of Confluent's serializers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pylogbroker.errors import ConfigError
from pylogbroker.schemas.subjects import QualifiedSubject

if TYPE_CHECKING:
    from pylogbroker.schemas.framing import Field


_SUFFIXES: Final = ("-value", "-key")


def topic_of(subject: str) -> str:
    """Return the topic as which a subject is protected."""
    name = QualifiedSubject.parse(subject).name
    return next((name.removesuffix(suffix) for suffix in _SUFFIXES if name.endswith(suffix)), name)


def subject_of(strategy: str, topic: str, field: Field, record_name: str) -> str:
    """Return a subject; raise ConfigError if the strategy needs a name that the schema does not have."""
    if strategy == "topic":
        return f"{topic}-{field}"
    if not record_name:
        raise ConfigError(f"the subject strategy {strategy} needs a schema with a name: an Avro record or a JSON title")
    return record_name if strategy == "record" else f"{topic}-{record_name}"
