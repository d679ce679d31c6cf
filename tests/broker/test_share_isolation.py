"""Share groups and what they must not see: open and aborted transactions, markers, gaps; and leaders that move."""

from __future__ import annotations

from contextlib import ExitStack
from tempfile import TemporaryDirectory
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from pylogbroker.errors import ErrorCode
from pylogbroker.groups.share.state_records import SharePartitionKey
from pylogbroker.groups.share.stored_state import StoredState
from pylogbroker.records import Record, build
from pylogbroker.storage import Origin
from tests.broker.members import Members, opened_members
from tests.broker.share_members import ACCEPT, ShareMember, acquired, offsets
from tests.broker.test_share_fetch import ShareTests
from tests.broker.test_share_model import set_group
from tests.broker.transactions import Producer
from tests.broker.trees import now

NONE = ErrorCode.NONE


class IsolationTests(ShareTests):
    def setUp(self) -> None:
        super().setUp()
        now(self.node.broker.transaction_service.ensure_topic())
        self.producer = Producer(self.node, "p")
        self.assertEqual(self.producer.init(), NONE)

    def read_committed(self) -> None:
        self.set_group(**self.earliest, **{"share.isolation.level": "read_committed"})

    def begin(self) -> None:
        self.assertEqual(self.producer.add(("t", 0)), [NONE])

    def test_open_transaction_is_waited_for(self) -> None:
        self.read_committed()
        self.begin()
        self.producer.send(b"a", b"b")
        member = self.joined()
        waiting = member.fetch_later(wait_ms=1000)
        self.assertNoResult(waiting)
        self.producer.end(True)
        self.node.clock.advance(0)
        self.assertEqual(offsets(self.successResultOf(waiting)), [0, 1])

    def test_aborted_records_are_not_delivered(self) -> None:
        self.read_committed()
        self.begin()
        self.producer.send(b"a", b"b")
        self.producer.end(False)
        self.produce(2)
        member = self.member()
        self.assertEqual(offsets(member.fetch(self.p0)), [3, 4])  # the marker is at 2
        self.assertEqual(member.acknowledge(self.p0, (3, 4, ACCEPT)), NONE)
        [led] = self.node.broker.share_groups.partitions._led.values()
        self.assertEqual(led.records.start_offset, 5)

    def test_uncommitted_records_are_delivered_by_default_and_markers_never(self) -> None:
        self.begin()
        self.producer.send(b"a")
        self.assertEqual(offsets(self.member("a").fetch(self.p0)), [0])
        self.producer.end(False)
        self.produce(1)
        self.assertEqual(offsets(self.member("b").fetch(self.p0)), [2])

    def stored_start(self) -> int:
        state = self.node.broker.share_states.summary(SharePartitionKey("g", *self.p0))
        assert isinstance(state, StoredState)
        return state.start_offset

    def test_marker_behind_the_last_record_is_no_lag(self) -> None:
        self.begin()
        self.producer.send(b"a")
        member = self.member()
        self.assertEqual(offsets(member.fetch(self.p0)), [0])
        self.assertEqual(member.acknowledge(self.p0, (0, 0, ACCEPT)), NONE)
        self.producer.end(True)
        self.assertEqual(acquired(member.fetch()), {})
        self.node.clock.advance(0)
        self.assertEqual(self.stored_start(), 2)

    def test_aborted_records_at_the_end_are_no_lag(self) -> None:
        self.read_committed()
        self.begin()
        self.producer.send(b"a")
        self.producer.end(False)
        self.assertEqual(acquired(self.member().fetch(self.p0)), {})
        self.node.clock.advance(0)
        self.assertEqual(self.stored_start(), 2)

    def test_end_of_the_log_without_records_does_not_stop_a_member(self) -> None:
        self.read_committed()
        self.begin()
        self.producer.send(b"a")
        self.producer.end(False)
        member = self.joined()
        self.assertEqual(acquired(member.fetch()), {})
        self.produce(1)
        self.assertEqual(offsets(member.fetch()), [2])

    def test_offsets_between_batches_are_skipped(self) -> None:
        """Compaction leaves such gaps."""
        partition = self.node.broker.partitions.find("t", 0)
        self.produce(2)
        partition.append(build([Record(10, 1000, None, b"a")], base_offset=10), 1000, Origin.REPLICATION)
        member = self.member()
        self.assertEqual(acquired(member.fetch(self.p0)), {0: [(0, 1, 1), (10, 10, 1)]})
        self.assertEqual(member.acknowledge(self.p0, (0, 1, ACCEPT), (10, 10, ACCEPT)), NONE)
        self.produce(1)
        self.assertEqual(acquired(member.fetch()), {0: [(11, 11, 1)]})


class MovedLeaderTests(SynchronousTestCase):
    def setUp(self) -> None:
        stack = self.enterContext(ExitStack())
        directories = [stack.enter_context(TemporaryDirectory()) for _ in range(2)]
        self.cluster: Members = stack.enter_context(opened_members(directories, {"api.versions.release": "4.4"}))
        self.cluster.create("__share_group_state", [1], replicas=[1, 2])
        self.cluster.create("t", [1], replicas=[1, 2])
        for number in (1, 2):
            set_group(self.cluster[number])
        self.cluster[1].produce("t", 0, 1000, 1000)
        self.cluster.run(0.5)

    @property
    def p0(self) -> Any:
        return self.cluster[1].broker.metadata.topics["t"].id, 0

    def fetch(self, member: ShareMember) -> Any:
        added = (self.p0,) if not member.epoch else ()
        return self.cluster.result(member.fetch_later(*added, wait_ms=500))

    def test_former_leader_names_the_new_one(self) -> None:
        member = ShareMember(self.cluster[1])
        self.assertEqual(acquired(self.fetch(member)), {0: [(0, 1, 1)]})
        self.cluster.lead("t", 0, 2)
        for response in (
            self.fetch(member),
            self.cluster.result(member.acknowledge_later(self.p0, (0, 1, ACCEPT))),
        ):
            [partition] = response.responses[0].partitions
            self.assertEqual(partition.error_code, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            self.assertEqual(partition.current_leader.leader_id, 2)
            self.assertGreater(partition.current_leader.leader_epoch, 0)
            self.assertEqual([endpoint.node_id for endpoint in response.node_endpoints], [2])

    def test_waiting_fetch_learns_of_the_new_leader(self) -> None:
        member = ShareMember(self.cluster[1])
        self.fetch(member)
        waiting = member.fetch_later(wait_ms=60_000)
        self.cluster.run(0.1)
        self.assertNoResult(waiting)
        self.cluster.lead("t", 0, 2)
        [partition] = self.cluster.result(waiting).responses[0].partitions
        self.assertEqual(partition.error_code, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def test_new_leader_goes_on_with_the_stored_state(self) -> None:
        former = ShareMember(self.cluster[1])
        self.fetch(former)
        self.cluster.result(former.acknowledge_later(self.p0, (0, 0, ACCEPT)))
        self.cluster.lead("t", 0, 2)
        self.assertEqual(acquired(self.fetch(ShareMember(self.cluster[2]))), {0: [(1, 1, 1)]})

    def test_member_waits_while_the_state_has_no_leader(self) -> None:
        self.cluster.lead("__share_group_state", 0, -1)
        member = ShareMember(self.cluster[1])
        waiting = member.fetch_later(self.p0, wait_ms=3000)
        self.cluster.run(1)
        self.assertNoResult(waiting)
        self.cluster.lead("__share_group_state", 0, 2)
        self.assertEqual(acquired(self.cluster.result(waiting)), {0: [(0, 1, 1)]})

    def test_member_gets_an_error_if_the_state_cannot_be_read(self) -> None:
        self.cluster.lead("__share_group_state", 0, -1)
        member = ShareMember(self.cluster[1])
        response = self.cluster.result(member.fetch_later(self.p0, wait_ms=30_000), 20)
        [partition] = response.responses[0].partitions
        self.assertEqual(partition.error_code, ErrorCode.COORDINATOR_NOT_AVAILABLE)
