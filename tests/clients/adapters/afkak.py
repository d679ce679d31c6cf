"""afkak, the Twisted client, by way of `afkak_peer` in a process of its own."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from tests.clients.adapters.base import Abilities, Acks, Codec, Rejected
from tests.clients.model import Rec, from_row, write_rows
from tests.support.broker_process import ROOT
from tests.support.rpc_process import RemoteError, RpcProcess


class Afkak:
    name: str = "afkak"
    can: ClassVar[Abilities] = Abilities(
        codecs=("none", "gzip", "snappy"),
        headers=False,
        sets_timestamps=False,
        reads_timestamps=False,
        finds_times=False,
        idempotence=False,
    )

    def __init__(self) -> None:
        self._process: RpcProcess | None = None

    def call(self, command: str, *arguments: object) -> list[list[str]]:
        """Run one of afkak_process's commands; Rejected with Kafka's code if it fails."""
        if self._process is None or not self._process.running:
            self._process = RpcProcess([sys.executable, "-m", "tests.clients.adapters.afkak_process"], cwd=ROOT)
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
        if idempotent:
            raise ValueError("afkak has no idempotent producer")
        with tempfile.TemporaryDirectory() as directory:
            rows = write_rows(Path(directory, "records"), records)
            self.call("write", bootstrap, topic, codec, acks, rows)

    def read(self, bootstrap: str, topic: str, partitions: Sequence[int]) -> list[Rec]:
        found: list[Rec] = []
        for partition in partitions:
            ((start, end),) = self.call("bounds", bootstrap, topic, partition)
            if end != start:
                count = int(end) - int(start)
                found.extend(self.read_from(bootstrap, topic, partition, int(start), count))
        return found

    def read_from(self, bootstrap: str, topic: str, partition: int, offset: int, count: int) -> list[Rec]:
        return [from_row(row) for row in self.call("read", bootstrap, topic, partition, offset, count)]

    def offset_at(self, bootstrap: str, topic: str, partition: int, timestamp: int) -> int | None:
        raise ValueError("version 0 of ListOffsets finds segments, not records")

    def commit(self, bootstrap: str, group: str, topic: str, partition: int, offset: int, metadata: str) -> None:
        self.call("commit", bootstrap, group, topic, partition, offset, metadata)

    def committed(self, bootstrap: str, group: str, topic: str, partition: int) -> tuple[int, str] | None:
        rows = self.call("committed", bootstrap, group, topic, partition)
        return (int(rows[0][0]), rows[0][1]) if rows else None
