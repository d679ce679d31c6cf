"""Verification of transactions by coordinators on other brokers."""

from __future__ import annotations

from typing import Any

from pylogbroker.broker.apis import end_txn
from pylogbroker.errors import ErrorCode
from pylogbroker.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from pylogbroker.wire.messages.end_txn import EndTxnRequest
from tests.broker.member_transactions import MemberTests
from tests.broker.transactions import Producer

NONE = ErrorCode.NONE
TRY_AGAIN = ErrorCode.NOT_ENOUGH_REPLICAS
ADD_PARTITIONS_KEY = AddPartitionsToTxnRequest.api_key


class RemoteVerificationTests(MemberTests):
    def questions(self) -> list[tuple[str, int, Any]]:
        """Return what coordinators were asked."""
        return self.cluster.sent(AddPartitionsToTxnRequest)

    def test_the_coordinator_on_another_broker_is_asked(self) -> None:
        one, two = self.producer()
        self.assertEqual(two.send(b"x", index=1), ErrorCode.TRANSACTION_ABORTABLE)
        self.assertEqual(two.send(b"x", index=1, version=10), ErrorCode.INVALID_TXN_STATE)
        self.assertEqual(one.add(("t", 1)), [NONE])
        self.assertEqual(two.send(b"x", index=1), NONE)
        client, receiver, request = self.questions()[-1]
        self.assertEqual((client, receiver), ("AddPartitionsManager-client-2", 1))
        [asked] = request.transactions
        self.assertEqual((asked.transactional_id, asked.verify_only), ("p", True))
        self.assertEqual((asked.producer_id, asked.producer_epoch), (one.producer_id, one.epoch))
        self.assertEqual([(topic.name, topic.partitions) for topic in asked.topics], [("t", [1])])

    def test_only_the_first_batch_is_asked_about(self) -> None:
        _, two = self.begun()
        asked = len(self.questions())
        for _ in range(3):
            self.assertEqual(two.send(b"y", index=1), NONE)
        self.assertEqual(len(self.questions()), asked)

    def test_batches_that_wait_for_one_answer_keep_their_order(self) -> None:
        one, two = self.producer()
        one.add(("t", 1))
        answers = []
        for value in (b"a", b"b", b"c"):
            answers.append(two.send_later(value, index=1))
            two.sequences["t", 1] = two.sequences.get(("t", 1), 0) + 1
        results = [self.cluster.result(each).responses[0].partition_responses[0] for each in answers]
        self.assertEqual([(each.error_code, each.base_offset) for each in results], [(0, 0), (0, 1), (0, 2)])
        self.assertEqual(len(self.questions()), 1)

    def test_questions_of_several_producers_are_sent_together(self) -> None:
        producers = [self.producer(name) for name in "abc"]
        for one, _ in producers:
            one.add(("t", 1))
        answers = [two.send_later(b"x", index=1) for _, two in producers]
        codes = [self.cluster.result(each).responses[0].partition_responses[0].error_code for each in answers]
        self.assertEqual(codes, [NONE] * 3)
        self.assertEqual([len(request.transactions) for _, _, request in self.questions()], [3])

    def test_a_newer_producer_fences_the_older_one(self) -> None:
        _, two = self.begun()
        newer = Producer(self.cluster[1], "p")
        newer.init()
        self.cluster.run()  # its transaction is aborted
        self.assertEqual(newer.init(), NONE)
        self.assertEqual(two.send(b"late", index=1), ErrorCode.INVALID_PRODUCER_EPOCH)

    def test_a_coordinator_that_does_not_answer(self) -> None:
        one, two = self.producer()
        one.add(("t", 1))
        self.cluster.down.add(1)
        self.assertEqual(two.send(b"x", index=1), TRY_AGAIN)
        self.cluster.update()
        self.assertEqual(two.send(b"x", index=1), TRY_AGAIN)
        self.cluster.lead("__transaction_state", 0, -1)
        self.assertEqual(two.send(b"x", index=1), TRY_AGAIN)
        self.cluster.down.clear()
        self.cluster.lead("__transaction_state", 0, 1)
        self.cluster.run()
        self.assertEqual(two.send(b"x", index=1), NONE)

    def test_a_coordinator_that_is_no_more(self) -> None:
        """This broker has not heard of it yet."""
        one, two = self.producer()
        one.add(("t", 1))
        self.cluster[1].broker.transaction_service.driver.on_resigned("__transaction_state", 0, 1)
        self.assertEqual(two.send(b"x", index=1), TRY_AGAIN)

    def test_a_coordinator_of_an_older_release(self) -> None:
        """There is no verification, as in its release."""
        _, two = self.producer()
        self.cluster.newest[ADD_PARTITIONS_KEY] = 3
        self.assertEqual(two.send(b"x", index=1), NONE)

    def test_a_coordinator_that_supports_version_4(self) -> None:
        _, two = self.producer()
        self.cluster.newest[ADD_PARTITIONS_KEY] = 4
        self.assertEqual(two.send(b"x", index=1), ErrorCode.INVALID_TXN_STATE)

    def test_the_transaction_ends_while_the_answer_is_on_its_way(self) -> None:
        """The records would have no marker, and hide those behind them from readers of committed records."""
        one, two = self.producer()
        one.add(("t", 1))
        answers: list[Any] = []
        self.cluster.hold(ADD_PARTITIONS_KEY)
        two.send_later(b"late", index=1).addCallback(answers.append)
        self.cluster.run(0.1)
        self.cluster[1].send(end_txn.handle, EndTxnRequest("p", one.producer_id, one.epoch, True))
        self.cluster.run()
        self.assertEqual((self.state(), answers), ("CompleteCommit", []))
        self.cluster.release()
        self.cluster.run()
        codes = [each.responses[0].partition_responses[0].error_code for each in answers]
        self.assertEqual(codes, [ErrorCode.TRANSACTION_ABORTABLE])
        self.assertIsNone(self.undecided(2, 1))

    def test_another_broker_leads_by_then(self) -> None:
        one, two = self.producer()
        one.add(("t", 1))
        self.cluster.hold(ADD_PARTITIONS_KEY)
        answer = two.send_later(b"x", index=1)
        self.cluster.run()
        self.cluster[2].broker.partitions.find("t", 1).leader_epoch += 1
        self.cluster.release()
        self.assertEqual(two.sent(self.cluster.result(answer), 1), ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def test_the_transaction_ends_while_another_broker_leads(self) -> None:
        """An answer of before says nothing about batches after that."""
        self.cluster.create("moving", [2], replicas=[1, 2])
        one, two = self.producer()
        one.add(("moving", 0))
        self.cluster.hold(ADD_PARTITIONS_KEY)
        early = two.send_later(b"early", topic="moving")
        self.cluster.run()
        self.cluster.lead("moving", 0, 1)
        self.assertEqual(one.end(True), NONE)
        self.cluster.run()
        self.assertEqual(self.state(), "CompleteCommit")
        self.cluster.lead("moving", 0, 2)
        late = two.send_later(b"late", topic="moving")
        self.cluster.release()
        self.assertEqual(two.sent(self.cluster.result(early), 1, "moving"), ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.assertEqual(two.sent(self.cluster.result(late), 1, "moving"), ErrorCode.TRANSACTION_ABORTABLE)
        self.assertIsNone(self.undecided(2, 0, "moving"))


class OffsetVerificationTests(MemberTests):
    def test_offsets_are_verified(self) -> None:
        one, two = self.producer()
        self.assertEqual(two.commit_offset("g", 7), ErrorCode.TRANSACTION_ABORTABLE)
        self.assertEqual(one.add_group("g"), NONE)
        self.assertEqual(two.commit_offset("g", 7), NONE)

    def test_a_coordinator_that_does_not_answer(self) -> None:
        one, two = self.producer()
        one.add_group("g")
        self.cluster.down.add(1)
        self.assertEqual(two.commit_offset("g", 7), ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    def test_the_transaction_ends_meanwhile(self) -> None:
        one, two = self.producer()
        one.add_group("g")
        self.cluster.hold(ADD_PARTITIONS_KEY)
        end = EndTxnRequest("p", one.producer_id, one.epoch, True)
        self.cluster.clock.callLater(0.1, self.cluster[1].send, end_txn.handle, end)
        self.cluster.clock.callLater(1, self.cluster.release)
        self.assertEqual(two.commit_offset("g", 7), ErrorCode.TRANSACTION_ABORTABLE)
        self.assertIsNone(self.undecided(2, 0, "__consumer_offsets"))

    def test_another_broker_leads_by_then(self) -> None:
        """Producers look for the new coordinator; TRANSACTION_ABORTABLE would end their transaction."""
        one, two = self.producer()
        one.add_group("g")
        self.cluster.hold(ADD_PARTITIONS_KEY)
        self.cluster.clock.callLater(0.1, self.cluster.lead, "__consumer_offsets", 0, 2)
        self.cluster.clock.callLater(1, self.cluster.release)
        self.assertEqual(two.commit_offset("g", 7), ErrorCode.NOT_COORDINATOR)
