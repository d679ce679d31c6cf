"""Records that the members of a group read once each."""

from __future__ import annotations

from collections.abc import Sequence

from tests.clients.adapters.confluent import Confluent
from tests.clients.members.member_process import Member, until
from tests.clients.model import Rec

_RECORDS = 5
"""Number of records of a partition in a round."""


class Records:
    """Records that are written to all partitions of a topic."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._partitions = partitions
        self._written: list[str] = []

    def go_through(self, members: Sequence[Member], gone: Sequence[Member] = ()) -> None:
        """Write records, wait until `members` have read all that was written, each once, and let them commit it."""
        word = len(self._written)
        records = [
            Rec(f"{word}-{partition}-{number}".encode(), partition=partition)
            for partition in range(self._partitions)
            for number in range(_RECORDS)
        ]
        Confluent().write(self._bootstrap, self._topic, records)
        self._written += [(record.value or b"").decode() for record in records]

        def values() -> list[str]:
            return [value for member in (*members, *gone) for value in member.values]

        until(members, lambda: len(values()) >= len(self._written))
        assert sorted(values()) == sorted(self._written)
        for member in members:
            member.commit()
