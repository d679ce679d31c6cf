"""A member joins Apache Kafka's controllers while a metadata transaction is open: it sees nothing of it, then all.

The first leader of a quorum writes the records of the format in a transaction, 10,000 in a batch: many users make it
several batches. Cut links hold the second batch back, so that the transaction is committed in part, as long as a test
wants.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Final
from uuid import uuid4

import attrs
import pytest

from pylogbroker.broker.kraft.quorum_state import REQUEST
from pylogbroker.kraft.metadata_log import MetadataLog
from pylogbroker.wire.messages.describe_quorum import QuorumPartitionState
from pylogbroker.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from pylogbroker.wire.metadata_records import MetadataRecord, UserScramCredentialRecord
from tests.broker.security.answers import asking
from tests.cluster.network import Network
from tests.kraft.cluster import QUICK, KraftPlace, kraft_own
from tests.kraft.quorum import FIRST_CONTROLLER, ApacheQuorum
from tests.kraft.run import RELEASES
from tests.peers.kafka import CLUSTER_ID
from tests.peers.maven import PeerError
from tests.peers.processes import free_ports
from tests.support.broker_process import BrokerProcess
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.process]
SECONDS: Final = 240
BATCH: Final = 10_000
"""Records of a controller's batch."""
LATER_USERS: Final = 2000
"""Of the second batch."""
USERS: Final = [
    UserScramCredentialRecord(f"user-{number}", 1, b"s" * 700, b"k" * 32, b"v" * 32, 4096)
    for number in range(BATCH + LATER_USERS)
]
FIRST_BATCH_BYTES: Final = 9_000_000
"""More than those of the first batch, fewer than those of both; a follower of 3.9 fetches up to 8 MiB at once."""
PATIENT: Final = {
    "controller.quorum.fetch.timeout.ms": "600000",
    "controller.quorum.request.timeout.ms": "600000",  # the first batch is fetched once
}
"""A leader stays, which its follower does not hear."""
QUICK_ELECTION: Final = {"controller.quorum.fetch.timeout.ms": "5000", "controller.quorum.request.timeout.ms": "5000"}
CONTROLLERS = 3
FIRST = (FIRST_CONTROLLER, FIRST_CONTROLLER + 1)
"""Controllers that run: one leads, one follows. The third one may follow later."""
LAST = FIRST_CONTROLLER + 2
MEMBER, OBSERVER = 1, 7


@attrs.define
class CommittedRecords:
    """Reads the metadata log as an observer of its own."""

    records: list[MetadataRecord] = attrs.field(factory=list)
    log: MetadataLog = attrs.field(factory=lambda: MetadataLog(OBSERVER, CLUSTER_ID, uuid4()))

    def read(self, quorum: ApacheQuorum) -> None:
        """Read what is committed now, of the controller that leads."""
        for number in quorum.running:
            with suppress(OSError), asking(quorum.controllers[number].port) as ask:
                data = ask("127.0.0.1", self.log.request(100), 17).responses[0].partitions[0]
                self.log.follow_leader(data.current_leader.leader_id, data.current_leader.leader_epoch)
                if data.error_code == 0:
                    self.log.fetched(data)
        for committed in self.log.committed():
            self.records += committed.records


@attrs.define
class OpenTransaction:
    """Controllers whose follower gets nothing behind the first batch, and a member that has read that."""

    quorum: ApacheQuorum
    network: Network
    member: BrokerProcess

    def described(self) -> QuorumPartitionState:
        """Return what the active controller says of the metadata log."""
        states: list[QuorumPartitionState] = []

        def is_described() -> bool:
            with suppress(OSError, KeyError), asking(self.quorum.controllers[self.quorum.active()].port) as ask:
                states.extend(ask("127.0.0.1", REQUEST, 1).topics[0].partitions)
            return bool(states) and states[-1].error_code == 0

        wait_until(is_described, SECONDS, lambda: states)
        return states[-1]

    def ends(self) -> tuple[int, int]:
        """Return the high watermark, and the end of the leader's log."""
        state = self.described()
        voters = {voter.replica_id: voter.log_end_offset for voter in state.current_voters}
        return state.high_watermark, voters[state.leader_id]

    def is_committed_in_part(self) -> bool:
        """Return whether a batch is committed, but not the whole."""
        committed, leader_end = self.ends()
        return committed > BATCH and leader_end - committed > LATER_USERS

    def member_has_read(self) -> bool:
        state = self.described()
        ends = {observer.replica_id: observer.log_end_offset for observer in state.observers}
        return ends.get(MEMBER, -1) >= state.high_watermark > BATCH

    def start_controller(self, number: int) -> None:
        """Start a controller, which says that it runs once the transaction has ended; it may be killed before."""
        self.quorum.running.append(number)
        with suppress(PeerError):
            self.quorum.controllers[number].start()

    def all_users_of_member(self) -> list[str]:
        with asking(int(self.member.bootstrap.rpartition(":")[2])) as ask:
            return [result.user for result in ask("127.0.0.1", DescribeUserScramCredentialsRequest(None), 0).results]


@pytest.fixture(params=RELEASES)
def transaction(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[OpenTransaction]:
    """Start controllers and a member; return when the member has read all that is committed."""
    settings = {**QUICK, **PATIENT}
    with closing(Network()) as network, ThreadPoolExecutor() as threads:
        quorum = ApacheQuorum.make(tmp_path, request.param, CONTROLLERS, settings, network)
        [port] = free_ports(1)
        member = kraft_own(KraftPlace(MEMBER, quorum, tmp_path / "member", settings, port, request.param))
        transaction = OpenTransaction(quorum, network, member)
        for one, controller in quorum.controllers.items():
            controller.first_records = USERS
            for other in quorum.controllers:
                network.cut_after(one, other, FIRST_BATCH_BYTES)
        try:
            for number in FIRST:
                threads.submit(transaction.start_controller, number)
            wait_until(transaction.is_committed_in_part, SECONDS, transaction.ends)
            threads.submit(member.start)  # ends when it serves
            wait_until(transaction.member_has_read, SECONDS, transaction.described)
            yield transaction
        finally:
            member.kill()
            quorum.kill_all()


def users_in(records: list[MetadataRecord]) -> list[str]:
    return [record.name for record in records if isinstance(record, UserScramCredentialRecord)]


def reader_of(transaction: OpenTransaction) -> CommittedRecords:
    """Return a reader that has read what is committed: nothing to hand out."""
    reader = CommittedRecords()
    wait_until(lambda: reader.read(transaction.quorum) or reader.log.committed_offset > BATCH, SECONDS)
    assert reader.records == []
    assert transaction.is_committed_in_part(), transaction.ends()
    return reader


def test_a_transaction_that_ends(transaction: OpenTransaction) -> None:
    """The member registers after it, and has all users."""
    member, names = transaction.member, [user.name for user in USERS]
    reader = reader_of(transaction)
    assert not is_member(member)
    transaction.network.heal()
    wait_until(lambda: is_member(member), SECONDS, member.log_lines)
    wait_until(lambda: sorted(transaction.all_users_of_member()) == sorted(names), SECONDS)
    wait_until(lambda: reader.read(transaction.quorum) or len(users_in(reader.records)) >= len(names), SECONDS)
    assert users_in(reader.records) == names
    assert member.unexpected_errors() == []


def is_member(member: BrokerProcess) -> bool:
    return any("membership in the cluster: active" in line for line in member.log_lines())


def test_a_transaction_that_another_controller_aborts(transaction: OpenTransaction) -> None:
    """Nothing is left of it, not even the level of metadata.version: the member goes on to wait for that."""
    reader, quorum, former = reader_of(transaction), transaction.quorum, transaction.quorum.active()
    epoch, end = reader.log.leader_epoch, reader.log.committed_offset
    for number in FIRST:
        quorum.kill(number)
    for proxy in transaction.network.proxies:
        if proxy.target == former:
            proxy.close()  # else what it has sent arrives
    transaction.network.heal()
    others = {*quorum.controllers} - {former}
    for number in others:
        controller = quorum.controllers[number]
        controller.settings = {**controller.settings, **QUICK_ELECTION}
    with ThreadPoolExecutor() as threads:
        list(threads.map(transaction.start_controller, others))
    wait_until(lambda: reader.read(quorum) or reader.log.committed_offset > end + 1, SECONDS, lambda: reader.log)
    assert reader.log.leader_epoch > epoch
    assert users_in(reader.records) == []
    assert not is_member(transaction.member)
    assert any("waiting for the controllers" in line for line in transaction.member.log_lines())
    assert transaction.member.unexpected_errors() == []
