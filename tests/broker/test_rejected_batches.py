"""Batches behind a rejected one get its error, while the producer cannot know of it."""

from __future__ import annotations

from pylogbroker.broker.partitions.partition import CONVERT_INLINE_BYTES_MAX
from pylogbroker.broker.requests.rejected_batches import ProducerBatch, RejectedBatches, SameRejection
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.records import Codec, Record, build
from tests.broker.produce_links import PRODUCER_ID, LeaderTests, Link

COSTLY_RECORDS = 20


class RejectedBatchTests(LeaderTests):
    """Sends batches by their sequence number: `a` goes to partition 0, `b` to partition 1."""

    __test__ = True

    def setUp(self) -> None:
        super().setUp()
        self.link = Link(self)
        self.ids = 0

    def send(self, producer_id: int = PRODUCER_ID, epoch: int = 0, costly: bool = False, **sent: int) -> None:
        """Let the broker receive one request with a batch for each partition; -1 stands for no sequence number."""
        self.ids += 1
        values = [b"x" * CONVERT_INLINE_BYTES_MAX] * COSTLY_RECORDS if costly else [b"x"]
        records, codec = (
            [Record(n, 1, None, value) for n, value in enumerate(values)],
            Codec.LZ4 if costly else Codec.NONE,
        )
        batches = {}
        for name, sequence in sent.items():
            named = (producer_id, epoch) if sequence >= 0 else (-1, -1)
            batches["ab".index(name)] = build(
                records, codec=codec, producer_id=named[0], producer_epoch=named[1], base_sequence=sequence
            )
        self.link.send(self.ids, batches)
        self.link.deliver()

    def answers(self) -> list[list[ErrorCode]]:
        """Return the codes of the answers that have come."""
        return [[*codes.values()] for _, codes in iter(self.link.answer, None)]

    def reject_and_recover(self, **sent: int) -> None:
        """Reject a batch for partition 1, which has enough replicas right afterwards."""
        self.shrink(1)
        self.send(**sent)
        self.expand(1)

    def test_batches_behind_a_rejected_one_get_its_error_while_it_waits(self) -> None:
        self.send(b=0)
        self.replicate(1)
        self.assertEqual(self.answers(), [[ErrorCode.NONE]])
        self.send(a=0)
        self.reject_and_recover(b=1)
        for sequence in range(2, 9):
            self.send(b=sequence)
        self.assertEqual(self.answers(), [])
        self.expire()
        self.assertEqual(self.answers(), [[ErrorCode.REQUEST_TIMED_OUT]] + [[ErrorCode.NOT_ENOUGH_REPLICAS]] * 8)
        for sequence in (1, 2):
            self.send(b=sequence)
        self.replicate(1)
        self.assertEqual(self.answers(), [[ErrorCode.NONE]] * 2)

    def test_a_producer_that_the_log_does_not_know_leaves_no_gap(self) -> None:
        self.send(a=0)
        self.reject_and_recover(b=0)
        self.send(b=1)
        self.assertEqual(self.stored(1), [])

    def test_four_batches_may_be_on_their_way_when_the_error_is_sent(self) -> None:
        self.send(b=0)
        self.replicate(1)
        self.reject_and_recover(b=1)
        for sequence in range(2, 7):
            self.send(b=sequence)
        codes = [code for [code] in self.answers()]
        self.assertEqual(codes[1:], [ErrorCode.NOT_ENOUGH_REPLICAS] * 5 + [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER])

    def test_a_batch_waits_for_others_of_its_request(self) -> None:
        self.shrink(1)
        self.send(a=0, b=-1)
        self.expand(1)
        self.send(b=-1)
        self.replicate(0)
        self.assertEqual(
            self.answers(), [[ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS], [ErrorCode.NOT_ENOUGH_REPLICAS]]
        )

    def test_batches_without_numbers_keep_their_order_until_the_error_is_sent(self) -> None:
        self.send(a=0)
        self.reject_and_recover(b=-1)
        self.send(b=-1)
        self.replicate(0)
        self.assertEqual(self.answers()[1:], [[ErrorCode.NOT_ENOUGH_REPLICAS]] * 2)
        self.send(b=-1)
        self.replicate(1)
        self.assertEqual(self.answers(), [[ErrorCode.NONE]])

    def test_other_producers_and_epochs_go_on(self) -> None:
        self.send(a=0)
        self.reject_and_recover(b=0)
        self.send(b=-1)
        self.send(producer_id=PRODUCER_ID + 1, b=0)
        self.send(epoch=1, b=0)
        self.replicate(0)
        self.replicate(1)
        self.assertEqual(self.answers(), [[ErrorCode.NONE], [ErrorCode.NOT_ENOUGH_REPLICAS], *[[ErrorCode.NONE]] * 3])

    def test_an_error_that_the_batch_itself_has_caused_concerns_no_other(self) -> None:
        self.send(a=0)
        self.send(b=0)
        self.send(b=2)
        self.send(b=1)
        self.replicate(0)
        self.replicate(1)
        codes = [code for [code] in self.answers()]
        self.assertEqual(
            codes, [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.NONE]
        )

    def test_a_batch_that_was_repeated_elsewhere_stands_in_nobodys_way(self) -> None:
        self.reject_and_recover(b=0)
        first, self.link = self.link, Link(self)
        self.send(b=0)
        self.link = first
        self.send(b=1)
        self.replicate(1)
        self.assertEqual(self.answers(), [[ErrorCode.NOT_ENOUGH_REPLICAS], [ErrorCode.NONE]])

    def test_batches_that_wait_for_a_thread_get_the_error_of_those_before_them(self) -> None:
        self.node.threads.holding = True
        self.send(b=0, costly=True)
        self.leave(1)
        self.come_back(1)
        self.send(b=COSTLY_RECORDS)
        while self.node.threads.held:
            self.node.threads.run_one()
        self.assertEqual(self.answers(), [[ErrorCode.NOT_LEADER_OR_FOLLOWER]] * 2)
        self.assertEqual(self.stored(1), [])

    def test_a_connection_remembers_a_thousand_partitions(self) -> None:
        error = KafkaError("no", ErrorCode.NOT_ENOUGH_REPLICAS)
        rejected = RejectedBatches(())
        for index in range(1, -1000, -1):
            rejected.note("t", index, ProducerBatch(PRODUCER_ID, 0, 0), error, None)
        later = ProducerBatch(PRODUCER_ID, 0, 1)
        rejected.check(self.partitions.hosted["t", 1], later)
        with self.assertRaises(SameRejection):
            rejected.check(self.partitions.hosted["t", 0], later)
