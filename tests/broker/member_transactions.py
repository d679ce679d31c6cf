"""Transactions on two brokers in one process."""

from __future__ import annotations

from contextlib import ExitStack
from tempfile import TemporaryDirectory

import attrs
from twisted.trial.unittest import SynchronousTestCase

from pylogbroker.broker.apis import describe_transactions
from pylogbroker.errors import ErrorCode
from pylogbroker.wire.messages.describe_transactions import DescribeTransactionsRequest
from tests.broker.members import Members, opened_members
from tests.broker.transactions import Producer

NONE = ErrorCode.NONE


class MemberTests(SynchronousTestCase):
    """Two brokers; 1 coordinates all transactions, 2 all groups; topic `t` has a partition on each."""

    settings: dict[str, str] = {}

    def setUp(self) -> None:
        stack = self.enterContext(ExitStack())
        directories = [stack.enter_context(TemporaryDirectory()) for _ in range(2)]
        self.cluster: Members = stack.enter_context(opened_members(directories, self.settings))
        self.cluster.create("t", [1, 2])
        self.cluster.create("__transaction_state", [1])
        self.cluster.create("__consumer_offsets", [2])

    def producer(self, transactional_id: str = "p") -> tuple[Producer, Producer]:
        """An initialized producer, as it speaks to its coordinator and to broker 2."""
        producer = Producer(self.cluster[1], transactional_id)
        self.assertEqual(producer.init(), NONE)
        return producer, attrs.evolve(producer, node=self.cluster[2])

    def begun(self, transactional_id: str = "p") -> tuple[Producer, Producer]:
        """A producer that has records in both partitions of `t`."""
        one, two = self.producer(transactional_id)
        self.assertEqual(one.add(("t", 0), ("t", 1)), [NONE, NONE])
        self.assertEqual((one.send(b"x", index=0), two.send(b"x", index=1)), (NONE, NONE))
        return one, two

    def undecided(self, number: int, index: int, topic: str = "t") -> int | None:
        """Return where the open transaction of a partition begins."""
        return self.cluster[number].broker.partitions.find(topic, index).log.producers.first_undecided_offset

    def state(self, transactional_id: str = "p") -> str:
        """Return the state of a transaction."""
        answer = self.cluster[1].ask(describe_transactions.handle, DescribeTransactionsRequest([transactional_id]))
        return str(answer.transaction_states[0].transaction_state)
