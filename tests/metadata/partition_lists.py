"""Nodes that only other programs write: lists of partitions."""

from __future__ import annotations

import json
from collections.abc import Iterable


def encode_partition_list(partitions: Iterable[tuple[str, int]]) -> bytes:
    """Return ISR changes, or wanted preferred elections, as Kafka writes them."""
    listed = [{"topic": topic, "partition": number} for topic, number in partitions]
    return json.dumps({"version": 1, "partitions": listed}, separators=(",", ":")).encode()
