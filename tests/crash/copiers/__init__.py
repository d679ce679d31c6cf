"""Copiers: processes with one client each that consume, transform, produce and commit in transactions, endlessly.

    copier.py      librdkafka
    Copier.java    Kafka's Java client

Both get the same command line (`Orders`). They copy a value as

    <copier> <CRC-32 of the value, 8 hex digits> <value>

to the partition with the record's number modulo the count, and report their progress on their standard output:

    started                the transactional id is theirs; what a copier before them left open was aborted
    assigned 0,2           the partitions that the group gave them
    begun, sent, offsets   in a transaction: begun; its records are acknowledged; the offsets are part of it
    committing             the transaction is about to be committed
    committed 100          so many records, by the broker's answer
    aborted why            a transaction, by an error or by their own will (one in 20); they go back to what the
                           group has committed
    fenced why             another one has the transactional id, or nothing helps: they end, with status 3
    closed                 they were asked to end (by a line, or the end, of the standard input), and did so in order

With an option for pauses, they pause for a random time before each step, so that a kill can hit the step.
"""

from __future__ import annotations

import attrs

FENCED_STATUS = 3  # exit status of a fenced copier
FIRST_STAGES = ("started", "assigned")
IN_TRANSACTION = ("sent", "offsets", "committing")
STAGES = (*FIRST_STAGES, "begun", *IN_TRANSACTION, "committed")


@attrs.frozen
class Orders:
    """Arguments of a copier."""

    bootstrap: str
    name: str  # and transactional id
    group: str
    source: str
    target: str
    partitions: int  # of the target
    most: int = 200  # records in a transaction
    pause_ms: int = 10
    static: bool = False  # a member with an instance id: one that comes back gets its partitions back
    transactions: bool = True  # else, with librdkafka, records first and then the offsets: that is not exactly once

    def arguments(self) -> list[str]:
        """Return the arguments as they stand on the command line."""
        flags = [str(int(self.static)), str(int(self.transactions))]
        numbers = [str(self.partitions), str(self.most), str(self.pause_ms)]
        return [self.bootstrap, self.name, self.group, self.source, self.target, *numbers, *flags]

    @classmethod
    def of(cls, arguments: list[str]) -> Orders:
        """Return the orders of a command line."""
        *names, partitions, most, pause_ms, static, transactions = arguments
        return cls(
            *names, int(partitions), int(most), int(pause_ms), static=static == "1", transactions=transactions == "1"
        )
