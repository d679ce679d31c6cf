"""User data of members of a sticky group: their previous partitions, in Kafka's layout.

    int32 count, count x (int16 length, topic, int32 count, count x int32 partition), int32 generation

The oldest clients omit the generation; kafka-python since 3.0 prepends an int16 version. `cooperative-sticky` sends
only the generation, for leaders that miss it in the subscription:

    int32 generation
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from pylogbroker.assignors.sticky import Claim
from pylogbroker.interfaces import TopicPartition

_LENGTH = struct.Struct(">h")
_NUMBER = struct.Struct(">i")


def encode_user_data(owned: Sequence[TopicPartition], generation: int) -> bytes:
    """Return empty bytes for no partitions."""
    if not owned:
        return b""
    topics: dict[str, list[int]] = {}
    for topic, number in owned:
        topics.setdefault(topic, []).append(number)
    parts = [_NUMBER.pack(len(topics))]
    for topic, numbers in topics.items():
        name = topic.encode()
        parts += [_LENGTH.pack(len(name)), name, struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)]
    return b"".join(parts) + _NUMBER.pack(generation)


def encode_generation(generation: int) -> bytes:
    return _NUMBER.pack(generation)


def decode_user_data(user_data: bytes) -> Claim | None:
    """Return None for another layout."""
    for start in (0, _LENGTH.size):
        try:
            owned, generation = _owned(user_data, start)
        except (struct.error, UnicodeDecodeError):
            continue
        return Claim(tuple(owned), generation)
    return None


def decode_generation(user_data: bytes) -> int:
    """Return the generation, with or without partitions; -1 for another layout."""
    if len(user_data) == _NUMBER.size:
        generation: int = _NUMBER.unpack(user_data)[0]
        return generation
    claim = decode_user_data(user_data)
    return claim.generation if claim else -1


def _owned(user_data: bytes, position: int) -> tuple[list[TopicPartition], int]:
    owned: list[TopicPartition] = []
    (count,) = _NUMBER.unpack_from(user_data, position)
    position += _NUMBER.size
    for _ in range(count):
        (length,) = _LENGTH.unpack_from(user_data, position)
        start, position = position + _LENGTH.size, position + _LENGTH.size + max(length, 0)
        topic = user_data[start:position].decode()
        (partitions,) = _NUMBER.unpack_from(user_data, position)
        numbers = struct.unpack_from(f">{partitions}i", user_data, position + _NUMBER.size)
        position += _NUMBER.size * (1 + partitions)
        owned += [(topic, number) for number in numbers]
    (generation,) = _NUMBER.unpack(user_data[position:]) if user_data[position:] else (-1,)
    return owned, generation
