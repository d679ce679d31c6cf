"""Checks: compare the answers that clients got (`history`) with the logs (`content`).

| kind        | violation                                                                                          |
|-------------|----------------------------------------------------------------------------------------------------|
| lost        | an acknowledged record is not in the log                                                           |
| moved       | it is, but not at the offset that was acknowledged                                                 |
| duplicate   | a record is there more often than its producer's guarantee allows                                   |
| order       | a later record of a producer comes before an earlier one                                           |
| gap         | a record of an idempotent producer is there, and one that it sent before is not                    |
| foreign     | a record, with a good checksum, that its producer did not send                                     |
| damaged     | the log as such: an entry changed or went, a wrong CRC, an offset left out, a record nobody sent   |
| unseen      | a consumer read a record that is not in the log at that offset                                     |
| contradiction | consumers read different records at one offset, or passed over some                              |
| commit back | a group's offset is smaller than one that was acknowledged before                                  |
| commit made up | it is larger than any that was tried                                                            |
| rejected    | the broker rejected a record of a producer that retries                                            |
| unanswered  | in the end, a record was neither acknowledged nor did it fail                                      |

A guarantee allows, exactly:

* ONCE (idempotent): the log holds the records 0, 1, 2, ... of a producer, each once, in this order, none left out.
* AT_MOST_ONCE (no retries): each at most once, in order.
* AT_LEAST_ONCE (retries, one request at a time): within one life of the broker each at most once and in order. A record
  is there more than once only if it was sent in one life and acknowledged in another. The acknowledged copy is the last
  one, and the acknowledged copies are in order.
* REPEATED (the same, in a cluster): any number of copies, in any order. librdkafka has one request in flight for each
  leader, so a batch that a former leader rejects comes behind later ones.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import attrs

from tests.crash.content import Content
from tests.crash.history import UNANSWERED, Committed, Partition, Promise, Sent
from tests.crash.stamps import Stamp

Copies = Sequence[tuple[int, int]]  # of one producer's records in one partition: offset, sequence; by offset


@attrs.frozen
class Violation:
    """Something that must not be."""

    kind: str
    what: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.what}"


def check_content(partition: Partition, content: Content) -> Iterator[Violation]:
    """The log itself."""
    for problem in content.problems:
        yield Violation("damaged", f"{_name(partition)}: {problem}")
    if content.ends and content.end < content.ends[-1]:
        what = f"the log ends at {content.end}, and whole entries on disk went up to {content.ends[-1]}"
        yield Violation("damaged", f"{_name(partition)}: {what}")


def check_record_structure(
    partition: Partition, content: Content, senders: Sequence[Sent], *, settled: bool
) -> Iterator[Violation]:
    """All records in a partition against all that were sent there; `settled`: nothing is under way any more."""
    copies: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for offset, stamp in content.records.items():
        if (stamp.topic, stamp.partition) == partition:
            copies[stamp.producer].append((offset, stamp.sequence))
        else:
            yield Violation("foreign", f"{_name(partition)} at {offset}: {stamp}")
    known = {sent.producer: sent for sent in senders if sent.partition == partition}
    for producer in copies.keys() - known.keys():
        yield Violation("foreign", f"{_name(partition)}: {len(copies[producer])} records of {producer}")
    for producer, sent in known.items():
        for kind, what in _check_producer(sent, copies[producer], content.ends, settled):
            yield Violation(kind, f"{producer} in {_name(partition)}: {what}")


def check_seen(partition: Partition, content: Content, seen: Mapping[int, Stamp]) -> Iterator[Violation]:
    """Check that the log has what consumers read, at the same offsets."""
    for offset, stamp in seen.items():
        found = content.records.get(offset)
        if found != stamp:
            yield Violation("unseen", f"{_name(partition)} at {offset}: {stamp} was read, the log has {found}")


def check_commit(group: str, partition: Partition, before: Committed, found: int, tried: int) -> Iterator[Violation]:
    """A group's offset, `found` after `before` was known; since then no further one than `tried` was tried."""
    if found < before.acknowledged:
        what = f"{before.acknowledged} was acknowledged, it is {found}"
        yield Violation("commit back", f"{group} in {_name(partition)}: {what}")
    if found > tried:
        yield Violation("commit made up", f"{group} in {_name(partition)}: {found}, and at most {tried} was tried")


_Found = tuple[str, str]


def _check_producer(sent: Sent, copies: Copies, ends: Sequence[int], settled: bool) -> Iterator[_Found]:
    yield from _check_acknowledged(sent.offsets, copies)
    foreign = [each for each in copies if each[1] >= len(sent.begun)]
    if foreign:
        yield "foreign", f"{foreign[0]} (offset, sequence) and {len(foreign) - 1} more were never sent"
    elif sent.promise is Promise.ONCE:
        yield from _check_once(copies)
    elif sent.promise is Promise.AT_MOST_ONCE:
        yield from _check_rising(copies)
    elif sent.promise is Promise.AT_LEAST_ONCE:
        yield from _check_retried(sent, copies, ends)
    if sent.failures and sent.promise is not Promise.AT_MOST_ONCE:
        first = min(sent.failures)
        yield "rejected", f"record {first}: {sent.failures[first]}; {len(sent.failures)} in all"
    if settled and (open_ones := [number for number, life in enumerate(sent.ended) if life == UNANSWERED]):
        yield "unanswered", f"{len(open_ones)} records, the first is {open_ones[0]}"


def _check_acknowledged(offsets: Sequence[int], copies: Copies) -> Iterator[_Found]:
    at = dict(copies)
    places = defaultdict(list)
    for offset, sequence in copies:
        places[sequence].append(offset)
    for sequence, offset in enumerate(offsets):
        if offset == UNANSWERED:
            continue
        if sequence not in places:
            yield "lost", f"record {sequence}, acknowledged at {offset}"
        elif offset >= 0 and at.get(offset) != sequence:
            yield "moved", f"record {sequence}, acknowledged at {offset}, is at {places[sequence]}"


def _check_rising(copies: Copies) -> Iterator[_Found]:
    """Each once, in order."""
    seen: dict[int, int] = {}
    highest = -1
    for offset, sequence in copies:
        if sequence in seen:
            yield "duplicate", f"record {sequence} is at {seen[sequence]} and at {offset}"
        elif sequence < highest:
            yield "order", f"record {sequence} at {offset} comes behind record {highest}"
        seen[sequence] = offset
        highest = max(highest, sequence)


def _check_once(copies: Copies) -> Iterator[_Found]:
    yield from _check_rising(copies)
    present = {sequence for _, sequence in copies}
    missing = sorted(set(range(max(present, default=-1))) - present)
    if missing:
        yield "gap", f"record {missing[0]} and {len(missing) - 1} more are left out"


def _check_retried(sent: Sent, copies: Copies, ends: Sequence[int]) -> Iterator[_Found]:
    lives: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for offset, sequence in copies:
        lives[bisect_right(ends, offset)].append((offset, sequence))
    for life in lives.values():
        yield from _check_rising(life)
    last = {sequence: offset for offset, sequence in copies}
    times = Counter(sequence for _, sequence in copies)
    for sequence, count in times.items():
        if count > 1 and sent.begun[sequence] == sent.ended[sequence]:
            yield "duplicate", f"record {sequence} is there {count} times, and the broker did not crash meanwhile"
    for sequence, offset in _acknowledged_copies(sent, copies):
        if last[sequence] > offset:
            yield "duplicate", f"record {sequence} is at {last[sequence]}, behind {offset} where it was acknowledged"
    yield from _check_acknowledged_order(sent, copies)


def _acknowledged_copies(sent: Sent, copies: Copies) -> Copies:
    """Return sequence and offset of the copies that are at their acknowledged offsets."""
    there = set(copies)
    return [(sequence, offset) for sequence, offset in enumerate(sent.offsets) if (offset, sequence) in there]


def _check_acknowledged_order(sent: Sent, copies: Copies) -> Iterator[_Found]:
    known = _acknowledged_copies(sent, copies)
    for (_, before), (sequence, offset) in pairwise(known):
        if offset < before:
            yield "order", f"record {sequence}, acknowledged at {offset}, comes before its predecessor at {before}"


def _name(partition: Partition) -> str:
    return f"{partition[0]}-{partition[1]}"
