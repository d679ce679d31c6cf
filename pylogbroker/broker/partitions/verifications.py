"""Verifications in progress of one partition, while a coordinator on another broker is asked.

A marker that is appended meanwhile ends them: the coordinator's answer may be of before, and records of an ended
transaction would be without a marker (KIP-890; Kafka's class VerificationGuard). Batches of a producer that arrive
while its first one is verified wait for the same answer, so that they keep their order. Those of a later leader epoch
do not: another leader may have appended the marker.

A marker of transactions v2 has the epoch of the producer's next transaction. If that is the one that is verified, the
marker belongs to the transaction before, and ends nothing.
"""

from __future__ import annotations

from typing import Final

import attrs
from twisted.internet.defer import Deferred, succeed

from pylogbroker.errors import ErrorCode
from pylogbroker.transactions import TransactionMarker


@attrs.define(eq=False, repr=False)
class Verification:
    """One question to the coordinator; `is_over` after the transaction's marker."""

    producer_id: int
    epoch: int
    leader_epoch: int
    adds: bool
    """True if the partition is added to the transaction, which may wait for the end of the one before."""
    is_over: bool = False
    users: int = 0
    _answer: ErrorCode | None = None
    _waiting: list[Deferred[ErrorCode]] = attrs.field(factory=list)

    def wait(self) -> Deferred[ErrorCode]:
        """Return the answer; those who wait get it in their order."""
        if self._answer is not None:
            return succeed(self._answer)
        waiting: Deferred[ErrorCode] = Deferred()
        self._waiting.append(waiting)
        return waiting

    def answered(self, error: ErrorCode) -> None:
        self._answer = error
        waiting, self._waiting = self._waiting, []
        for deferred in waiting:
            deferred.callback(error)


_Key = tuple[int, bool]
_UNUSED: Final[dict[_Key, Verification]] = {}
"""Of all partitions without a verification so far; never changed."""


@attrs.define(eq=False, repr=False)
class Verifications:
    _by_producer: dict[_Key, Verification] = attrs.field(default=_UNUSED, init=False)

    def join(self, producer_id: int, epoch: int, leader_epoch: int, adds: bool = False) -> Verification:
        """Return the verification in progress, or a new one, which has one user; `leave` it in the end."""
        key = producer_id, adds
        verification = self._by_producer.get(key)
        if self._by_producer is _UNUSED:
            self._by_producer = {}
        if verification is None or (verification.epoch, verification.leader_epoch) != (epoch, leader_epoch):
            verification = self._by_producer[key] = Verification(producer_id, epoch, leader_epoch, adds)
        verification.users += 1
        return verification

    def leave(self, verification: Verification) -> None:
        key = verification.producer_id, verification.adds
        verification.users -= 1
        if not verification.users and self._by_producer.get(key) is verification:
            del self._by_producer[key]

    def end_transaction(self, marker: TransactionMarker) -> None:
        """Handle a marker that is appended."""
        for adds in (False, True):
            verification = self._by_producer.get((marker.producer_id, adds))
            if verification is not None and not marker.is_before(verification.epoch):
                verification.is_over = True
                del self._by_producer[marker.producer_id, adds]
