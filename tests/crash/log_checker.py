"""Reads all logs after each start, and at the end, and has the evidence that was there before checked against them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import attrs

from tests.crash.checks import Violation, check_commit, check_content, check_record_structure, check_seen
from tests.crash.content import Content, end_of
from tests.crash.history import Evidence, History, Partition
from tests.crash.reader import Reader

_QUICK: Final = 30_000  # records


@attrs.define
class LogChecker:
    """The logs as they were read so far."""

    _history: History
    _reader: Reader
    contents: dict[Partition, Content] = attrs.field(factory=dict)
    _looks: int = 0
    _archived: set[Partition] = attrs.field(factory=set)

    def watch(self, partitions: Sequence[Partition], *, is_archived: bool = False) -> None:
        """These logs are to be judged. The files of archived ones have their last records alone."""
        self._archived.update(partitions if is_archived else ())
        self.contents.update({partition: Content() for partition in partitions})

    def life_is_over(self) -> None:
        """The broker is dead: all that it wrote is in whole entries at the ends of the files."""
        for partition, content in self.contents.items():
            base, data = self._reader.last_file(partition)
            content.ends.append(end_of(data) or base)

    def check(self, *, settled: bool) -> Iterator[Violation]:
        """The broker runs again.

        All is read each time.  Who sent and saw what is compared with it each time while that is quick, then seldom.
        """
        evidence = self._history.as_of_now()
        self._looks += 1
        thorough = settled or self._looks % 10 == 0 or sum(map(len, self.contents.values())) < _QUICK
        for partition, content in self.contents.items():
            content.read(self._reader.read(partition))
            yield from check_content(partition, content)
            if thorough:
                yield from check_record_structure(partition, content, evidence.sent, settled=settled)
                yield from check_seen(partition, content, evidence.seen.get(partition, {}))
        yield from self._check_commits(evidence)
        for what in self._history.contradictions:
            yield Violation("contradiction", what)

    def _check_commits(self, evidence: Evidence) -> Iterator[Violation]:
        for group in {group for group, _ in evidence.committed}:
            before = {partition: one for (name, partition), one in evidence.committed.items() if name == group}
            found = self._reader.committed(group, list(before))
            now = self._history.as_of_now().committed
            for partition, one in before.items():
                yield from check_commit(group, partition, one, found[partition], now[group, partition].tried)

    def check_files(self) -> Iterator[Violation]:
        """The broker was stopped: its files hold what it served."""
        for partition, content in self.contents.items():
            if partition in self._archived:
                continue
            before = len(content.records)
            content.read(self._reader.files(partition))
            yield from check_content(partition, content)
            if len(content.records) != before:
                what = f"{len(content.records)} records in the files, {before} were served"
                yield Violation("damaged", f"{partition[0]}-{partition[1]}: {what}")
