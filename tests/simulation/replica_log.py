"""Records in a replica's files, read without the product's code."""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator
from typing import Any, Final

_HEADER: Final = struct.Struct(">qiiBIhi")
_OVERHEAD: Final = 12  # base offset and length, which the length does not count
_SEGMENT: Final = re.compile(r"(\d{20})\.kafka")

Record = tuple[int, int, int]
"""Leader epoch, checksum of the batch, index in the batch: names one record."""


class Damaged(AssertionError):
    pass


def batches(data: bytes) -> Iterator[tuple[int, list[Record], int]]:
    """Yield base offset, records and end of each whole batch (format v2)."""
    position = 0
    while position + _HEADER.size <= len(data):
        base, length, epoch, magic, crc, _attributes, delta = _HEADER.unpack_from(data, position)
        end = position + _OVERHEAD + length
        if magic != 2 or length <= 0:
            raise Damaged(f"no batch at byte {position}")
        if end > len(data):
            return
        yield base, [(epoch, crc, index) for index in range(delta + 1)], end
        position = end


class ReplicaLog:
    """Records of one replica by offset, kept up to date with its files; the log begins at offset 0."""

    def __init__(self, directory: str) -> None:
        self.records: list[Record] = []
        self._directory = directory
        self._segment = ""
        self._position = 0
        self._version: object = None

    def update(self, log: Any | None) -> None:
        """Read what was appended; all, if the log was cut or opened again. Without a log the files are at rest."""
        version = None if log is None else (id(log), log.truncations, len(log.segments))
        if version is None or version != self._version:
            self.read_all()
            self._version = version
        else:
            self._read_on()

    def read_all(self) -> None:
        self.records = []
        for name in self._segments():
            self._segment, self._position = name, 0
            self._read_on()

    def _segments(self) -> list[str]:
        try:
            return sorted(name for name in os.listdir(self._directory) if _SEGMENT.fullmatch(name))
        except FileNotFoundError:
            return []

    def _read_on(self) -> None:
        if not self._segment:
            return
        with open(f"{self._directory}/{self._segment}", "rb") as file:
            file.seek(self._position)
            data = file.read()
        begin = self._position
        for base, records, end in batches(data):
            if base != len(self.records):
                raise Damaged(f"{self._directory}: a batch has offset {base}, not {len(self.records)}")
            self.records += records
            self._position = begin + end
