"""Consumers as real clients are, one step at a time: what they do next follows from the last answer they got."""

from __future__ import annotations

from enum import Enum

import attrs

from pylogbroker.errors import ErrorCode
from pylogbroker.groups import JoinResult, SyncResult
from tests.groups.harness import Answer, Harness, subscription

FATAL_ERRORS = (ErrorCode.FENCED_INSTANCE_ID, ErrorCode.GROUP_MAX_SIZE_REACHED)
UNKNOWN_MEMBER_ERRORS = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)


class Phase(Enum):
    OUT = "has to join"
    JOINING = "waits for the answer to a join"
    JOINED = "has to sync"
    SYNCING = "waits for the answer to a sync"
    MEMBER = "has its assignment"
    DEAD = "does nothing any more"


@attrs.define(eq=False)
class Consumer:
    """One consumer. It keeps every answer that it ever waited for."""

    name: str
    version: int
    instance_id: str | None = None
    phase: Phase = Phase.OUT
    member_id: str = ""
    metadata: bytes = subscription("t")
    joined: JoinResult | None = None
    assignment: bytes | None = None
    answers: list[Answer[JoinResult] | Answer[SyncResult]] = attrs.field(factory=list)
    history: list[tuple[JoinResult, bytes]] = attrs.field(factory=list)  # each generation it took part in

    @property
    def lives(self) -> bool:
        return self.phase is not Phase.DEAD

    def step(self, harness: Harness) -> None:
        """Do what comes next."""
        {
            Phase.OUT: self._join,
            Phase.JOINING: self._take_join,
            Phase.JOINED: self._sync,
            Phase.SYNCING: self._take_sync,
            Phase.MEMBER: self._beat,
            Phase.DEAD: lambda harness: None,
        }[self.phase](harness)

    def ask_again(self, harness: Harness) -> None:
        """Send what waits for an answer once more, as after a connection broke, and forget the first one."""
        if self.phase is Phase.JOINING:
            self._join(harness)
        elif self.phase is Phase.SYNCING:
            self._sync(harness)

    def change(self, harness: Harness, topic: str) -> None:
        """Subscribe to something else, which is a reason to join again."""
        self.metadata = subscription("t", topic)
        if self.phase is Phase.MEMBER:
            self.phase = Phase.OUT

    def leave(self, harness: Harness) -> None:
        if self.member_id:
            harness.leave(self.member_id, self.instance_id)
        self.phase = Phase.DEAD

    def crash(self) -> None:
        self.phase = Phase.DEAD

    def _join(self, harness: Harness) -> None:
        answer = harness.join(
            self.member_id,
            protocols={"range": self.metadata, "sticky": self.metadata},
            instance_id=self.instance_id,
            version=self.version,
            rebalance=30_000,
        )
        self.answers.append(answer)
        self.phase = Phase.JOINING

    def _take_join(self, harness: Harness) -> None:
        answer = self.answers[-1]
        if answer.waits:
            return
        result = answer.value
        assert isinstance(result, JoinResult)
        if result.error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = result.member_id
        if result.error:
            self._recover(result.error)
        else:
            self.member_id = result.member_id
            self.joined = result
            self.phase = Phase.JOINED

    def _sync(self, harness: Harness) -> None:
        assert self.joined is not None
        assignments = {}
        if self.joined.leader == self.member_id and not self.joined.skip_assignment:
            assignments = {
                member.member_id: f"{self.joined.generation}:{member.instance_id or member.member_id}".encode()
                for member in self.joined.members
            }
        self.answers.append(harness.sync(self.joined, assignments, instance_id=self.instance_id))
        self.phase = Phase.SYNCING

    def _take_sync(self, harness: Harness) -> None:
        answer = self.answers[-1]
        if answer.waits:
            return
        result = answer.value
        assert isinstance(result, SyncResult)
        assert self.joined is not None
        if result.error:
            self._recover(result.error)
        else:
            self.assignment = result.assignment
            self.history.append((self.joined, result.assignment))
            self.phase = Phase.MEMBER

    def _beat(self, harness: Harness) -> None:
        assert self.joined is not None
        error = harness.heartbeat(self.joined, self.instance_id)
        if error:
            self._recover(error)

    def _recover(self, error: ErrorCode) -> None:
        if error in FATAL_ERRORS:
            self.phase = Phase.DEAD
            return
        if error in UNKNOWN_MEMBER_ERRORS:
            self.member_id = ""
        self.phase = Phase.OUT
