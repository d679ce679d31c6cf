"""Rebalances of a very large group do not keep the reactor from other connections."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from pylogbroker.broker.requests.offered_versions import offered_versions
from pylogbroker.wire import Request, response_codec
from pylogbroker.wire.messages.find_coordinator import FindCoordinatorRequest
from pylogbroker.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from pylogbroker.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from pylogbroker.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.groups.harness import subscription
from tests.net.test_hostile_peers import Peer
from tests.support.broker_process import BrokerProcess
from tests.support.budget import Budget
from tests.support.reactor_stalls import check_stalls, watching

USUAL_MEMBERS, MOST_MEMBERS = 500, 2_000
PER_CONNECTION = 1_000  # no more requests of one connection wait
JOIN_WITHOUT_ID = 3  # later versions join twice


class Crowd:
    """Members of one group, which share connections."""

    def __init__(self, process: BrokerProcess, size: int, group: str) -> None:
        self.size, self.group = size, group
        self.peers = [Peer(process) for _ in range(0, self.size, PER_CONNECTION)]
        for peer in self.peers:
            peer.socket.settimeout(120)
        self.members: list[str] = []

    def find_coordinator(self) -> None:
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=[self.group])
        while self._ask(request).coordinators[0].error_code:
            pass

    def join(self, topic: str) -> tuple[int, str]:
        """Let all members join, new ones if there are none yet; return the generation and the leader."""
        known = self.members or [""] * self.size
        protocols = [JoinGroupRequestProtocol("range", subscription(topic))]
        for number, member_id in enumerate(known):
            request = JoinGroupRequest(self.group, 30_000, 60_000, member_id, None, "consumer", protocols)
            self.peers[number // PER_CONNECTION].send(request, JOIN_WITHOUT_ID)
        joined = [self._answer(number, JoinGroupRequest, JOIN_WITHOUT_ID) for number in range(len(known))]
        assert {answer.error_code for answer in joined} == {0}
        self.members = [answer.member_id for answer in joined]
        [generation] = {answer.generation_id for answer in joined}
        [leader] = {answer.leader for answer in joined}
        return generation, leader

    def sync(self, generation: int, leader: str) -> None:
        version = offered_versions(SyncGroupRequest.api_key).last
        for number, member_id in enumerate(self.members):
            given = (
                [SyncGroupRequestAssignment(each, b"x" * 50) for each in self.members] if member_id == leader else []
            )
            request = SyncGroupRequest(self.group, generation, member_id, None, "consumer", "range", given)
            self.peers[number // PER_CONNECTION].send(request, version)
        synced = [self._answer(number, SyncGroupRequest, version) for number in range(len(self.members))]
        assert {(answer.error_code, bytes(answer.assignment)) for answer in synced} == {(0, b"x" * 50)}

    def leave(self, members: Sequence[str]) -> list[int]:
        answer = self._ask(LeaveGroupRequest(self.group, members=[MemberIdentity(member_id) for member_id in members]))
        return [each.error_code for each in answer.members]

    def _ask(self, request: Request) -> Any:
        self.peers[0].send(request, offered_versions(request.api_key).last)
        return self._answer(0, type(request), offered_versions(request.api_key).last)

    def _answer(self, number: int, request: type[Request], version: int) -> Any:
        codec = response_codec(request.api_key, version)
        return codec.decode(self.peers[number // PER_CONNECTION].answer(), codec._header_size)


@pytest.fixture
def process(tmp_path: Path, budget: Budget) -> Iterator[BrokerProcess]:
    running = BrokerProcess(tmp_path, {**watching(budget), "group.initial.rebalance.delay.ms": "1000"})
    running.start()
    yield running
    running.kill()


def test_a_large_group(process: BrokerProcess, budget: Budget) -> None:
    size = budget.of(USUAL_MEMBERS, MOST_MEMBERS)
    check_stalls(process, budget, lambda attempt: live(Crowd(process, size, f"g{attempt}")))


def live(crowd: Crowd) -> None:
    """Let members join, rebalance for another topic and after one has left, and leave."""
    crowd.find_coordinator()
    for topic in ("first", "second"):
        crowd.sync(*crowd.join(topic))
    crowd.leave(crowd.members[-1:])
    del crowd.members[-1]
    crowd.sync(*crowd.join("third"))
    assert set(crowd.leave(crowd.members)) == {0}
