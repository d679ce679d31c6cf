"""Markers of transactions whose partitions other brokers lead."""

from __future__ import annotations

from unittest.mock import AsyncMock, Mock, patch

import attrs
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from pylogbroker.broker.apis import end_txn
from pylogbroker.broker.coordinators.broker_batches import batches_without_repetition
from pylogbroker.broker.coordinators.marker_sender import MarkerSender
from pylogbroker.broker.membership.admin import ClusterAdmin
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.groups import CommittedOffset
from pylogbroker.records import entries
from pylogbroker.wire.messages.end_txn import EndTxnRequest
from pylogbroker.wire.messages.fetch import FetchRequest
from pylogbroker.wire.messages.write_txn_markers import WriteTxnMarkersRequest
from tests.broker.member_transactions import MemberTests

NONE = ErrorCode.NONE


class MarkerRequestTests(MemberTests):
    settings = {"transaction.partition.verification.enable": "false"}

    def test_every_partition_gets_its_marker_from_its_leader(self) -> None:
        self.cluster.lead("__transaction_state", 0, 1)
        for committed, wanted in ((True, "CompleteCommit"), (False, "CompleteAbort")):
            one, _ = self.begun()
            self.assertEqual((self.undecided(1, 0), self.undecided(2, 1)), (2 * (not committed),) * 2)
            self.assertEqual(one.end(committed), NONE)
            self.cluster.run()
            self.assertEqual((self.undecided(1, 0), self.undecided(2, 1)), (None, None))
            self.assertEqual(self.state(), wanted)
        sent = self.cluster.sent(WriteTxnMarkersRequest)
        self.assertEqual([(client, receiver) for client, receiver, _ in sent], [("broker-1-txn-marker-sender", 2)] * 2)
        markers = [marker for _, _, request in sent for marker in request.markers]
        self.assertEqual([each.transaction_result for each in markers], [True, False])
        self.assertEqual({each.coordinator_epoch for each in markers}, {1})
        self.assertEqual({topic.name for each in markers for topic in each.topics}, {"t"})
        self.assertEqual([topic.partition_indexes for each in markers for topic in each.topics], [[1], [1]])

    def test_markers_for_one_broker_share_a_request(self) -> None:
        names = "abc"
        producers = [self.begun(name)[0] for name in names]
        ends = [
            self.cluster[1].send(
                end_txn.handle, EndTxnRequest(each.transactional_id, each.producer_id, each.epoch, True)
            )
            for each in producers
        ]
        self.assertEqual([self.cluster.result(end).error_code for end in ends], [NONE] * len(names))
        self.cluster.run()
        self.assertEqual([len(request.markers) for _, _, request in self.cluster.sent(WriteTxnMarkersRequest)], [3])
        self.assertEqual([self.state(name) for name in names], ["CompleteCommit"] * 3)

    def test_a_broker_that_does_not_answer_is_asked_again(self) -> None:
        one, _ = self.begun()
        self.cluster.down.add(2)
        self.assertEqual(one.end(True), NONE)
        self.cluster.run(3)
        self.assertEqual((self.state(), self.undecided(1, 0), self.undecided(2, 1)), ("PrepareCommit", None, 0))
        self.cluster.update()  # it is not alive for the others
        self.cluster.run(3)
        self.assertEqual(self.state(), "PrepareCommit")
        self.cluster.down.clear()
        self.cluster.update()
        self.cluster.run(3)
        self.assertEqual((self.state(), self.undecided(2, 1)), ("CompleteCommit", None))

    def test_a_marker_goes_to_the_current_leader(self) -> None:
        self.cluster.create("moving", [2], replicas=[1, 2])
        one, two = self.producer()
        one.add(("moving", 0))
        answer = two.send_later(b"x", topic="moving")
        self.cluster.run()
        self.assertEqual(two.sent(self.cluster.result(answer), 1, "moving"), NONE)
        self.cluster.down.add(2)
        self.assertEqual(one.end(True), NONE)
        self.cluster.run()
        self.assertEqual(self.undecided_end("moving"), 0)
        self.cluster.lead("moving", 0, 1)
        self.cluster.run(2)
        self.assertEqual(self.undecided(1, 0, "moving"), None)

    def undecided_end(self, topic: str) -> int | None:
        """Return where the open transaction begins in broker 1's replica."""
        return self.cluster[1].broker.partitions.hosted[topic, 0].log.producers.first_undecided_offset

    def test_a_broker_that_does_not_know_that_it_leads_is_asked_again(self) -> None:
        one, _ = self.begun()
        self.cluster[2].broker.partitions.led.pop(("t", 1))
        self.assertEqual(one.end(True), NONE)
        self.cluster.run()
        self.assertEqual(self.state(), "PrepareCommit")
        self.cluster.lead("t", 1, 2)
        self.cluster.run(2)
        self.assertEqual(self.state(), "CompleteCommit")

    def test_a_deleted_topic_completes_the_transaction(self) -> None:
        one, _ = self.begun()
        self.cluster.down.add(2)
        one.end(True)
        self.cluster.run()
        self.cluster.delete("t")
        self.cluster.run(2)
        self.assertEqual(self.state(), "CompleteCommit")

    def test_markers_of_a_stalled_partition_hold_no_others_back(self) -> None:
        """Broker 1 is in sync, and does not fetch: the stalled partition's high watermark stays."""
        self.cluster.create("stalled", [2], replicas=[1, 2])
        one, two = self.producer("waiting")
        one.add(("stalled", 0))
        self.assertEqual(two.sent(self.cluster.result(two.send_later(b"x", topic="stalled")), 1, "stalled"), NONE)
        others = {name: self.begun(name)[0] for name in "abc"}
        self.cluster.hold(FetchRequest.api_key)
        self.assertEqual((one.end(True), others["a"].end(True)), (NONE, NONE))
        self.cluster.run(1.1)
        self.assertEqual([self.state(name) for name in ("waiting", "a")], ["PrepareCommit", "CompleteCommit"])
        for name in "bc":
            self.cluster.run(2)  # the stalled one is tried again and again
            self.assertEqual(others[name].end(True), NONE)
            self.cluster.run(0.1)
            self.assertEqual(self.state(name), "CompleteCommit")
        self.assertEqual(self.markers("stalled"), 1)
        self.cluster.release()
        self.cluster.run(2)
        self.assertEqual(self.state("waiting"), "CompleteCommit")

    def markers(self, topic: str) -> int:
        """Count the control batches in broker 2's replica."""
        log = self.cluster[2].broker.partitions.find(topic, 0).log
        region = log.read(0, 1 << 20, upto=log.log_end_offset)
        return 0 if region is None else sum(entry.is_control for entry in entries(region.read()))

    def test_an_unexpected_error_is_tried_again(self) -> None:
        one, _ = self.begun()
        with patch.object(MarkerSender, "send", Mock(side_effect=ZeroDivisionError)):
            self.assertEqual(one.end(True), NONE)
            self.cluster.run()
        self.assertEqual(self.state(), "PrepareCommit")
        self.assertTrue(self.flushLoggedErrors(ZeroDivisionError))
        self.cluster.run(2)
        self.assertEqual(self.state(), "CompleteCommit")

    def test_offsets_of_groups_on_another_broker(self) -> None:
        for committed, wanted in ((False, -1), (True, 7)):
            one, two = self.producer()
            self.assertEqual(one.add_group("g"), NONE)
            self.assertEqual(two.commit_offset("g", 7), NONE)
            self.assertEqual(self.undecided(2, 0, "__consumer_offsets"), 0 if not committed else 2)
            self.assertEqual(one.end(committed), NONE)
            self.cluster.run()
            result = self.cluster[2].broker.groups.fetch("g", [("t", 0)], require_stable=True)
            found = result.offsets.get(("t", 0))
            self.assertEqual(found.offset if isinstance(found, CommittedOffset) else -1, wanted)
            self.assertEqual(self.undecided(2, 0, "__consumer_offsets"), None)

    def test_the_topic_of_offsets_must_be_known(self) -> None:
        """Its markers would not be written: an unknown topic counts as deleted."""
        self.cluster.delete("__consumer_offsets")
        one, _ = self.producer()
        exists = AsyncMock(side_effect=KafkaError("another broker created it", ErrorCode.TOPIC_ALREADY_EXISTS))
        with patch.object(ClusterAdmin, "create_topic", exists):
            self.assertEqual(one.add_group("g"), ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self.cluster.create("__consumer_offsets", [2])
        self.assertEqual(one.add_group("g"), NONE)


class BatchTests(SynchronousTestCase):
    def test_each_name_occurs_once(self) -> None:
        @attrs.frozen(eq=False)
        class Asked:
            name: str
            answer: Deferred[None] = attrs.field(factory=Deferred)

        batches = batches_without_repetition(map(Asked, "abacab"), lambda asked: asked.name)
        self.assertEqual(["".join(asked.name for asked in batch) for batch in batches], ["abc", "ab", "a"])
