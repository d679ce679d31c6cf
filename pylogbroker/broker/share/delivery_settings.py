"""Settings of a share group that leaders of partitions follow."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from pylogbroker.config import BrokerConfig
from pylogbroker.config.group_config import (
    BY_DURATION,
    DEAD_LETTER_COPY,
    DEAD_LETTER_TOPIC,
    SHARE_DELIVERY_LIMIT,
    SHARE_ISOLATION,
    SHARE_LOCK_DURATION,
    SHARE_LOCKS_MAX,
    SHARE_OFFSET_RESET,
    SHARE_RENEWAL,
    group_values,
)
from pylogbroker.groups.share.partition import SharePartitionSettings
from pylogbroker.java.duration import milliseconds_of


@attrs.frozen
class DeliverySettings:
    """`begins_before_ms` is None if the group does not begin at a time; `dead_letter_topic` is empty without one."""

    records: SharePartitionSettings
    is_committed: bool
    may_renew: bool
    begins_at_earliest: bool
    begins_before_ms: int | None
    dead_letter_topic: str
    copies_records: bool

    @classmethod
    def of(cls, config: BrokerConfig, stored: Mapping[str, str], may_have_dead_letters: bool) -> DeliverySettings:
        values = group_values(config, stored)
        reset = values.text(SHARE_OFFSET_RESET)
        before_ms = None
        if reset.startswith(BY_DURATION):
            before_ms = milliseconds_of(reset.removeprefix(BY_DURATION))
        dead_letter_topic = values.text(DEAD_LETTER_TOPIC) if may_have_dead_letters else ""
        return cls(
            SharePartitionSettings(
                values.integer(SHARE_LOCK_DURATION),
                values.integer(SHARE_DELIVERY_LIMIT),
                values.integer(SHARE_LOCKS_MAX),
                bool(dead_letter_topic),
            ),
            values.text(SHARE_ISOLATION) == "read_committed",
            values.boolean(SHARE_RENEWAL),
            reset == "earliest",
            before_ms,
            dead_letter_topic,
            values.boolean(DEAD_LETTER_COPY),
        )
