"""Verifications in progress of one partition, while a coordinator on another broker is asked.

A marker that is appended meanwhile ends them: the coordinator's answer may be of before, and records of an ended
transaction would be without a marker (KIP-890; Kafka's class VerificationGuard). Batches of a producer that arrive
while its first one is verified wait for the same answer, so that they keep their order. Those of a later leader epoch
do not: another leader may have appended the marker.
"""

from __future__ import annotations

from typing import Final

import attrs
from twisted.internet.defer import Deferred, succeed

from pylogbroker.errors import ErrorCode


@attrs.define(eq=False, repr=False)
class Verification:
    """One question to the coordinator; `is_over` after the transaction's marker."""

    producer_id: int
    epoch: int
    leader_epoch: int
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


_UNUSED: Final[dict[int, Verification]] = {}
"""Of all partitions without a verification so far; never changed."""


@attrs.define(eq=False, repr=False)
class Verifications:
    _by_producer: dict[int, Verification] = attrs.field(default=_UNUSED, init=False)

    def join(self, producer_id: int, epoch: int, leader_epoch: int) -> Verification:
        """Return the verification in progress, or a new one, which has one user; `leave` it in the end."""
        verification = self._by_producer.get(producer_id)
        if self._by_producer is _UNUSED:
            self._by_producer = {}
        if verification is None or (verification.epoch, verification.leader_epoch) != (epoch, leader_epoch):
            verification = self._by_producer[producer_id] = Verification(producer_id, epoch, leader_epoch)
        verification.users += 1
        return verification

    def leave(self, verification: Verification) -> None:
        verification.users -= 1
        if not verification.users and self._by_producer.get(verification.producer_id) is verification:
            del self._by_producer[verification.producer_id]

    def end_transaction(self, producer_id: int) -> None:
        """Handle a marker of the producer."""
        ended = self._by_producer.pop(producer_id, None)
        if ended is not None:
            ended.is_over = True
