"""A subject and its context: `:.staging:orders-value` is `orders-value` in the context `.staging`."""

from __future__ import annotations

from typing import Final

import attrs

DEFAULT_CONTEXT: Final = "."
CONTEXT_PREFIX: Final = ":."


@attrs.frozen
class QualifiedSubject:
    """A subject by its context, with the leading period, and its name within it."""

    context: str
    name: str

    @classmethod
    def parse(cls, text: str) -> QualifiedSubject:
        if not text.startswith(CONTEXT_PREFIX):
            return cls(DEFAULT_CONTEXT, text)
        context, _, name = text[1:].partition(":")
        return cls(context, name)

    def __str__(self) -> str:
        return prefix_of(self.context) + self.name

    @property
    def is_context(self) -> bool:
        return not self.name


def prefix_of(context: str) -> str:
    """Return what stands before the subjects of a context, empty for the default one."""
    return "" if context == DEFAULT_CONTEXT else f":{context}:"
