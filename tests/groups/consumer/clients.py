"""Clients of a group of KIP-848 as they should be: they use a partition only while it is assigned to them.

join        epoch 0, owns nothing
heartbeat   what has changed; after a lost answer everything
revoke      stop using partitions that the last assignment leaves out
take        use the partitions of the last assignment, when none is left to revoke
"""

from __future__ import annotations

import attrs

from pylogbroker.errors import ErrorCode
from pylogbroker.groups.consumer.partitions import TopicIdPartition
from pylogbroker.groups.consumer.requests import HeartbeatResult
from tests.coordinators.harness import Answer
from tests.groups.consumer.harness import REBALANCE, ConsumerHarness

FENCED = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND)


@attrs.define(eq=False)
class Client:
    name: str
    topics: frozenset[str]
    expression: str | None = None
    instance_id: str | None = None
    incarnation: int = 0
    epoch: int = 0
    owned: frozenset[TopicIdPartition] = frozenset()
    assignment: frozenset[TopicIdPartition] = frozenset()
    answer: Answer[HeartbeatResult] | None = None
    is_alive: bool = True
    has_left: bool = False
    sends_all: bool = True  # an answer was lost
    sent_owned: frozenset[TopicIdPartition] | None = None
    has_sent_subscription: bool = False

    @property
    def member_id(self) -> str:
        return f"{self.name}-{self.incarnation}"

    def beat(self, harness: ConsumerHarness) -> None:
        """Send a heartbeat unless an earlier one waits for its answer."""
        self.receive()
        if self.answer is None and self.is_alive and not self.has_left:
            self._send(harness)
            self.receive()

    def _send(self, harness: ConsumerHarness) -> None:
        joins = self.epoch == 0
        fields: dict[str, object] = {"instance_id": self.instance_id}
        if joins or self.sends_all:
            fields["rebalance_timeout_ms"] = REBALANCE
        if joins or self.sends_all or not self.has_sent_subscription:
            fields["topics"], fields["expression"] = self.topics, self.expression
            self.has_sent_subscription = True
        if joins or self.sends_all or self.owned != self.sent_owned:
            fields["owned"] = self.sent_owned = self.owned
        self.sends_all = False
        self.answer = harness.beat(self.member_id, self.epoch, **fields)

    def receive(self) -> None:
        if self.answer is None or self.answer.waits:
            return
        result, self.answer = self.answer.value, None
        if result.error in FENCED:
            self.forget()
        elif result.error:
            self.sends_all = True
        else:
            assert result.epoch >= self.epoch, "a client's epoch goes back"
            self.epoch = result.epoch
            if result.assignment is not None:
                self.assignment = frozenset(result.assignment)

    def forget(self) -> None:
        """Join again as a new member, as a client does that was fenced."""
        self.epoch, self.owned, self.assignment = 0, frozenset(), frozenset()
        self.has_sent_subscription = False
        self.sends_all = True

    def lose_answer(self) -> None:
        """Stop waiting for an answer."""
        if self.answer is not None:
            self.answer = None
            self.sends_all = True

    def beat_unanswered(self, harness: ConsumerHarness) -> None:
        """Send a heartbeat whose answer is lost."""
        self.receive()
        if self.answer is None and self.is_alive and not self.has_left:
            self._send(harness)
            self.lose_answer()

    def reconcile(self) -> None:
        """Revoke, or take what is new."""
        self.receive()
        kept = self.owned & self.assignment
        self.owned = kept if kept != self.owned else self.assignment

    def leave(self, harness: ConsumerHarness) -> None:
        """Leave; a static client comes back with another member id."""
        if self.answer is None and self.is_alive and self.epoch > 0:
            self.owned = self.assignment = frozenset()
            epoch = -1 if self.instance_id is None else -2
            harness.beat(self.member_id, epoch, instance_id=self.instance_id)
            self.has_left = True

    def come_back(self) -> None:
        if self.has_left:
            self.has_left = False
            self.incarnation += 1
            self.forget()

    def crash(self) -> None:
        self.is_alive, self.owned, self.answer = False, frozenset(), None
