"""Common interface of all clients: write records, and read them from a given place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal, Protocol

import attrs

from tests.clients.model import CANONICAL, START, Rec

Acks = Literal["0", "1", "all"]
Codec = Literal["none", "gzip", "snappy", "lz4", "zstd"]

CODECS: tuple[Codec, ...] = ("none", "gzip", "snappy", "lz4", "zstd")
ACKS: tuple[Acks, ...] = ("0", "1", "all")
#: Seconds for each step of a client: most take milliseconds, but the machine may stand still meanwhile.
TIMEOUT = 120.0


class Rejected(Exception):
    """The broker's answer was an error; `code` is Kafka's number for it."""

    def __init__(self, code: int, message: str = "") -> None:
        super().__init__(f"error {code}: {message}")
        self.code = code


@attrs.frozen
class Abilities:
    """Abilities of a client library; tests ask for nothing else."""

    codecs: tuple[Codec, ...] = CODECS
    headers: bool = True
    #: the caller gives a record its timestamp; the reader gets it; the reader can look up an offset by time
    sets_timestamps: bool = True
    reads_timestamps: bool = True
    finds_times: bool = True
    null_key_and_value: bool = True
    null_headers: bool = True
    idempotence: bool = True

    def canonical(self, partition: int = 0) -> list[Rec]:
        """The canonical records, without what this client cannot write."""
        return [
            attrs.evolve(
                record,
                headers=record.headers if self.headers else (),
                timestamp=START + 1000 * index if self.sets_timestamps else None,
                partition=partition,
            )
            for index, record in enumerate(CANONICAL)
            if self._writes(record)
        ]

    def _writes(self, record: Rec) -> bool:
        if record.key is None and record.value is None:
            return self.null_key_and_value
        return self.null_headers or all(value is not None for _, value in record.headers)


class Client(Protocol):
    """One client library. Every call opens its own connections and closes them again."""

    name: str
    can: ClassVar[Abilities]

    def write(
        self,
        bootstrap: str,
        topic: str,
        records: Sequence[Rec],
        *,
        codec: Codec = "none",
        acks: Acks = "all",
        idempotent: bool = False,
    ) -> None:
        """Write all records, each to its partition, in order; Rejected if one was not taken."""

    def read(self, bootstrap: str, topic: str, partitions: Sequence[int]) -> list[Rec]:
        """Everything in the partitions, from their beginnings to the ends that they have at this moment."""

    def read_from(self, bootstrap: str, topic: str, partition: int, offset: int, count: int) -> list[Rec]:
        """`count` records from an offset on."""

    def offset_at(self, bootstrap: str, topic: str, partition: int, timestamp: int) -> int | None:
        """The first offset whose record is at or after a time; None if there is none."""


class Committer(Client, Protocol):
    """A client that commits offsets, and looks committed ones up, without joining the group."""

    def commit(self, bootstrap: str, group: str, topic: str, partition: int, offset: int, metadata: str) -> None: ...

    def committed(self, bootstrap: str, group: str, topic: str, partition: int) -> tuple[int, str] | None:
        """Offset and metadata."""
