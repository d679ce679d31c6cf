"""Bounds on an answer: it mentions each thing once, and its size does not depend on the request's good will.

What a request names a thousand times costs a few bytes each time, while the answer may repeat all that is known of it.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from pylogbroker.errors import ErrorCode, KafkaError

RESPONSE_BYTES_MAX = 64 * 1024 * 1024


@attrs.define
class ResponseBudget:
    """How many bytes one answer may still take; for what a request can name in few bytes and is answered with many."""

    left: int = attrs.field(factory=lambda: RESPONSE_BYTES_MAX)

    def take(self, size: int) -> None:
        """Note about how many bytes one thing takes; INVALID_REQUEST in place of the first one that does not fit."""
        if size > self.left:
            self.left = 0
            raise KafkaError(
                f"The answer would exceed {RESPONSE_BYTES_MAX} bytes; ask for less in one request",
                ErrorCode.INVALID_REQUEST,
            )
        self.left -= size


def distinct_partitions(asked: Iterable[tuple[str, Iterable[int]]]) -> dict[str, list[int]]:
    """Topics with their partitions, each of them once, in the order in which they are first mentioned."""
    found: dict[str, dict[int, None]] = {}
    for topic, indexes in asked:
        found.setdefault(topic, {}).update(dict.fromkeys(indexes))
    return {topic: list(indexes) for topic, indexes in found.items()}
