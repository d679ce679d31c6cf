"""Names of subjects with their contexts, as Confluent's registry qualifies them.

orders-value            subject of the default context
:.staging:orders-value  subject of the context `.staging`, which has ids of its own
:.staging:              the context itself: its level of compatibility and its mode
:.__GLOBAL:             settings of all contexts
:*:orders               subjects of all contexts that begin with `orders`, in lists alone
"""

from __future__ import annotations

import unicodedata
from typing import Final

from pylogbroker.registry.errors import RegistryError
from pylogbroker.schemas.subjects import CONTEXT_PREFIX, QualifiedSubject, prefix_of

GLOBAL: Final = ":.__GLOBAL:"
ANY_CONTEXT: Final = ":*:"
SUBJECT_CHARACTERS_MAX: Final = 1000
_GLOBAL_CONTEXT: Final = ".__GLOBAL"
_RESERVED: Final = ("__GLOBAL", "__EMPTY")


def context_of(subject: str) -> str:
    return QualifiedSubject.parse(subject).context


def normalized_context(text: str) -> str:
    """Return the prefix of a context that a path names as `ctx`, `.ctx`, or `:.ctx:`; raise RegistryError."""
    name = text.removeprefix(":").removesuffix(":")
    if ":" in name:
        raise RegistryError(400, f"Context name '{name}' cannot contain a colon")
    return prefix_of(name if name.startswith(".") else f".{name}")


def checked_subject(text: str, *, of_settings: bool = False) -> str:
    """Return the usual form of a subject's name; raise RegistryError for a name that no subject may have."""
    subject = QualifiedSubject.parse(text)
    is_printable = not any(unicodedata.category(character) in ("Cc", "Cs") for character in text)
    is_reserved = subject.name in _RESERVED or (subject.context == _GLOBAL_CONTEXT and not of_settings)
    if not is_printable or is_reserved or len(text) > SUBJECT_CHARACTERS_MAX:
        raise RegistryError.invalid_subject(text)
    return str(subject)


def settings_subject(text: str | None) -> str | None:
    """Return the key of a subject's settings; None stands for the default context. Raise RegistryError."""
    return checked_subject(text, of_settings=True) or None if text else None


def in_context_of(parent: str, reference: str) -> str:
    """Return the subject of a reference: without a context of its own, it has that of the schema that refers."""
    if reference.startswith(CONTEXT_PREFIX):
        return reference
    return prefix_of(context_of(parent)) + reference


def matches_prefix(subject: str, prefix: str) -> bool:
    """Return whether a list by a prefix has a subject; `:*:` stands for all contexts."""
    if prefix == ANY_CONTEXT:
        return True
    if not prefix.startswith(ANY_CONTEXT):
        return subject.startswith(prefix)
    wanted_name = prefix.removeprefix(ANY_CONTEXT)
    return QualifiedSubject.parse(subject).name.startswith(wanted_name)


def settings_scopes(subject: str | None) -> tuple[str | None, ...]:
    """Return the keys of settings that hold for a subject, the nearest first."""
    if subject is None:
        return None, GLOBAL
    context = context_of(subject)
    return subject, prefix_of(context) or None, GLOBAL
