"""Dead letters of share groups (KIP-1191): where they are from, and what they are about.

Headers of a dead letter name its record's topic, partition and offset, its group, the number of its deliveries, and why
it is dead. With `errors.deadletterqueue.copy.record.enable` it also has the record's key, value and headers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import attrs

from pylogbroker.errors import ConfigError
from pylogbroker.features import on_first_use
from pylogbroker.java.text import is_digits

if TYPE_CHECKING:
    from pylogbroker.blocking.admin import BlockingAdmin
    from pylogbroker.client import admin as admin_api
    from pylogbroker.client.messages import Message
    from pylogbroker.records import Header
else:
    admin_api = on_first_use("pylogbroker.client.admin")

TOPIC_SETTING: Final = "errors.deadletterqueue.topic.name"
_PREFIX: Final = "__dlq.errors."


@attrs.frozen
class DeadLetter:
    """Dead letter, and the record that it is about."""

    message: Message
    group: str
    topic: str
    partition: int
    offset: int
    delivery_count: int
    why: str

    @property
    def headers(self) -> tuple[Header, ...]:
        """Headers of the record, if the dead letter has copied it."""
        return tuple(header for header in self.message.headers if not header[0].startswith(_PREFIX))

    @property
    def has_copy(self) -> bool:
        """False also for a copied record without key, value and headers."""
        return self.message.key is not None or self.message.value is not None or bool(self.headers)

    @property
    def place(self) -> tuple[str, int, int]:
        """Topic, partition and offset of the record."""
        return self.topic, self.partition, self.offset


def dead_letter(message: Message) -> DeadLetter | None:
    """Return the dead letter in a message, or None if it is none."""
    origin = {
        name.removeprefix(_PREFIX): (value or b"").decode(errors="replace")
        for name, value in message.headers
        if name.startswith(_PREFIX)
    }
    numbers = [origin.get(name, "") for name in ("partition", "offset", "delivery.count")]
    if not origin.get("topic") or not all(map(is_digits, numbers)):
        return None
    partition, offset, count = map(int, numbers)
    return DeadLetter(
        message, origin.get("group", ""), origin["topic"], partition, offset, count, origin.get("message", "")
    )


def dead_letter_topic(admin: BlockingAdmin, group: str) -> str:
    """Return the topic of a group's dead letters; raise ConfigError if it has none."""
    resource = admin_api.ConfigResource.group(group)
    entry = admin.configs.describe([resource], [TOPIC_SETTING])[resource].get(TOPIC_SETTING)
    if entry is None or not entry.value:
        raise ConfigError(
            f"share group {group} has no topic of dead letters: `pylogbroker config alter group {group} "
            f"--set {TOPIC_SETTING}=dlq.{group}` names one, or name it by --letters"
        )
    return entry.value


def of_group(messages: Iterator[Message], group: str) -> Iterator[DeadLetter]:
    for message in messages:
        letter = dead_letter(message)
        if letter is not None and letter.group == group:
            yield letter
