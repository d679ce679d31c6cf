"""Kafka's own Java clients: one process for each version, started at its first use and kept."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from tests.clients.adapters.base import Abilities, Acks, Codec, Rejected
from tests.clients.model import Rec, from_row, write_rows
from tests.peers.java import Program
from tests.support.rpc_process import RemoteError, RpcProcess

SOURCES = Path(__file__).parents[1] / "java"
_FILES = ("Admins", "Clients", "Rows", "Transactions", "Peer")


def program(name: str, release: str) -> Program:
    """One of the programs in `java/`, for the clients of a release: `3.9` or `4`."""
    shared = tuple(SOURCES / f"{each}.java" for each in _FILES if each != name)
    return Program(SOURCES / f"{name}.java", clients=f"clients-{release}", also=shared, log_level="error")


class Java:
    can: ClassVar[Abilities] = Abilities()

    def __init__(self, release: str) -> None:
        self.name = f"java-{release}"
        self._release = release
        self._process: RpcProcess | None = None

    def call(self, command: str, *arguments: object) -> list[list[str]]:
        """Run one of Peer's commands; Rejected with Kafka's code if it fails."""
        if self._process is None or not self._process.running:
            self._process = RpcProcess(program("Peer", self._release).command())
        try:
            return self._process.call(command, *arguments)
        except RemoteError as error:
            raise Rejected(error.code, error.message) from error

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()

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
        with tempfile.TemporaryDirectory() as directory:
            rows = write_rows(Path(directory, "records"), records)
            self.call("write", bootstrap, topic, codec, acks, str(idempotent).lower(), rows)

    def read(self, bootstrap: str, topic: str, partitions: Sequence[int]) -> list[Rec]:
        return [from_row(row) for row in self.call("read", bootstrap, topic, ",".join(map(str, partitions)))]

    def read_from(self, bootstrap: str, topic: str, partition: int, offset: int, count: int) -> list[Rec]:
        return [from_row(row) for row in self.call("read-from", bootstrap, topic, partition, offset, count)]

    def offset_at(self, bootstrap: str, topic: str, partition: int, timestamp: int) -> int | None:
        rows = self.call("offset-at", bootstrap, topic, partition, timestamp)
        return int(rows[0][0]) if rows else None

    def commit(self, bootstrap: str, group: str, topic: str, partition: int, offset: int, metadata: str) -> None:
        self.call("commit", bootstrap, group, topic, partition, offset, metadata)

    def committed(self, bootstrap: str, group: str, topic: str, partition: int) -> tuple[int, str] | None:
        rows = self.call("committed", bootstrap, group, topic, partition)
        return (int(rows[0][0]), rows[0][1]) if rows else None
