"""The reader of streams, asked as Spark asks it, without Spark.

query = Driven({"kafka.bootstrap.servers": bootstrap, "subscribe": topic})
query.next()            the values of the next micro-batch
query.restart()         a new reader goes on from what the last one wrote down
"""

from __future__ import annotations

import json
import pickle
from typing import Any

from pylogbroker.spark.reading.schema import schema_for
from pylogbroker.spark.reading.stream_reader import StreamReader
from tests.spark.topics import Rec

QUICK = {"fetchOffset.retryIntervalMs": 20}


class DrivenStream:
    """A query: asks for offsets, writes them down, reads what lies between, and starts again from what it wrote."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.options = {name: str(value) for name, value in options.items()}
        self.offset: dict[str, Any] = {}
        self.reader = self.restart()

    def restart(self) -> StreamReader:
        self.reader = StreamReader.of(self.options, schema_for(self.options))
        return self.reader

    def step(self) -> bool:
        """Ask for the next batch, as Spark does, with JSON in between; whether there is one."""
        limit = self.reader.getDefaultReadLimit()
        end = self.reader.latestOffset(json.loads(json.dumps(self.offset)), limit)
        self.before, changed = self.offset, json.dumps(end) != json.dumps(self.offset)
        self.offset = end
        return changed

    def rows(self) -> list[str]:
        """Return the rows of the last batch, read as tasks do."""
        found = []
        for part in self.reader.partitions(self.before, self.offset):
            task = pickle.loads(pickle.dumps((self.reader, part)))
            for batch in task[0].read(task[1]):
                found += [value.decode() for value in batch.column("value").to_pylist()]
        return found

    def next(self) -> list[str]:
        return self.rows() if self.step() else []

    def all(self) -> list[str]:
        """Everything until there is nothing more."""
        found = []
        while self.step():
            found += self.rows()
        return found

    @property
    def positions(self) -> dict[str, dict[str, int]]:
        return {topic: numbers for topic, numbers in self.offset.items() if not topic.startswith("/")}


def values(name: str, count: int, partition: int = 0) -> list[Rec]:
    return [Rec(f"{name}{number}".encode(), partition=partition) for number in range(count)]


def names(name: str, count: int) -> list[str]:
    return [f"{name}{number}" for number in range(count)]
