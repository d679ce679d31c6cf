"""Consumers as real clients are, one step at a time: what they do next follows from the last answer they got."""

from __future__ import annotations

from enum import Enum

import attrs

from pylogbroker.errors import ErrorCode
from pylogbroker.groups import JoinResult, SyncResult
from tests.groups.rooms import Answer, Table, subscription

DEADLY = (ErrorCode.FENCED_INSTANCE_ID, ErrorCode.GROUP_MAX_SIZE_REACHED)
FORGOTTEN = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)


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

    def step(self, table: Table) -> None:
        """Do what comes next."""
        {
            Phase.OUT: self._join,
            Phase.JOINING: self._take_join,
            Phase.JOINED: self._sync,
            Phase.SYNCING: self._take_sync,
            Phase.MEMBER: self._beat,
            Phase.DEAD: lambda table: None,
        }[self.phase](table)

    def ask_again(self, table: Table) -> None:
        """Send what waits for an answer once more, as after a connection broke, and forget the first one."""
        if self.phase is Phase.JOINING:
            self._join(table)
        elif self.phase is Phase.SYNCING:
            self._sync(table)

    def change(self, table: Table, topic: str) -> None:
        """Subscribe to something else, which is a reason to join again."""
        self.metadata = subscription("t", topic)
        if self.phase is Phase.MEMBER:
            self.phase = Phase.OUT

    def leave(self, table: Table) -> None:
        if self.member_id:
            table.leave(self.member_id, self.instance_id)
        self.phase = Phase.DEAD

    def crash(self) -> None:
        self.phase = Phase.DEAD

    def _join(self, table: Table) -> None:
        answer = table.join(
            self.member_id,
            protocols={"range": self.metadata, "sticky": self.metadata},
            instance_id=self.instance_id,
            version=self.version,
            rebalance=30_000,
        )
        self.answers.append(answer)
        self.phase = Phase.JOINING

    def _take_join(self, table: Table) -> None:
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

    def _sync(self, table: Table) -> None:
        assert self.joined is not None
        assignments = {}
        if self.joined.leader == self.member_id and not self.joined.skip_assignment:
            assignments = {
                member.member_id: f"{self.joined.generation}:{member.instance_id or member.member_id}".encode()
                for member in self.joined.members
            }
        self.answers.append(table.sync(self.joined, assignments, instance_id=self.instance_id))
        self.phase = Phase.SYNCING

    def _take_sync(self, table: Table) -> None:
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

    def _beat(self, table: Table) -> None:
        assert self.joined is not None
        error = table.heartbeat(self.joined, self.instance_id)
        if error:
            self._recover(error)

    def _recover(self, error: ErrorCode) -> None:
        if error in DEADLY:
            self.phase = Phase.DEAD
            return
        if error in FORGOTTEN:
            self.member_id = ""
        self.phase = Phase.OUT
