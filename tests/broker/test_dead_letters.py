"""Dead letters of share groups: stored before a record is done with, tried again, and complete after a restart."""

from __future__ import annotations

from unittest.mock import patch

from twisted.logger import capturedLogs, formatEvent

from pylogbroker.broker.share.persister import SharePersister
from pylogbroker.errors import ErrorCode
from pylogbroker.groups.share.state_coordinator import StateWrite
from pylogbroker.groups.share.state_records import SharePartitionKey
from pylogbroker.groups.share.stored_state import StoredState
from pylogbroker.groups.share.values import RecordState
from pylogbroker.records import Record, build, entries
from tests.broker.share_members import ACCEPT, REJECT, RELEASE, ShareMember, acquired
from tests.broker.test_share_fetch import ShareTests

ENABLED = {"errors_deadletterqueue_group_enable": "true"}


class DeadLetterTests(ShareTests):
    def setUp(self) -> None:
        super().setUp()
        self.set_dead_letters()

    def set_dead_letters(self, topic: str = "dlq.t", **more: str) -> None:
        name = {"errors.deadletterqueue.topic.name": topic} if topic else {}
        self.set_group(**self.earliest, **name, **{"share.delivery.count.limit": "2"}, **more)

    def rejected(self, count: int = 2) -> ShareMember:
        """A member that has rejected all records."""
        self.produce(count)
        member = self.member()
        member.fetch(self.p0)
        self.assertEqual(member.acknowledge(self.p0, (0, count - 1, REJECT)), ErrorCode.NONE)
        self.node.clock.advance(0)
        return member

    def letters(self, topic: str = "dlq.t", index: int = 0) -> list[Record]:
        log = self.node.broker.partitions.find(topic, index).log
        region = log.read(0, 10 << 20, upto=log.high_watermark)
        return [] if region is None else [record for entry in entries(region.read()) for record in entry.records()]

    def offsets(self) -> list[int]:
        return [int(dict(letter.headers)["__dlq.errors.offset"] or b"") for letter in self.letters()]

    def states(self) -> set[RecordState]:
        """Return the states of records that are not done with, as they are stored."""
        state = self.node.broker.share_states.summary(SharePartitionKey("g", *self.p0))
        assert isinstance(state, StoredState)
        return {batch.state for batch in state.batches}

    def test_rejected_records_are_stored(self) -> None:
        self.node.create("dlq.t", **ENABLED)
        self.rejected()
        first, second = self.letters()
        self.assertEqual((first.key, first.value), (None, None))
        self.assertEqual(
            dict(first.headers),
            {
                "__dlq.errors.topic": b"t",
                "__dlq.errors.partition": b"0",
                "__dlq.errors.offset": b"0",
                "__dlq.errors.group": b"g",
                "__dlq.errors.delivery.count": b"1",
                "__dlq.errors.message": b"Offset rejected by client.",
            },
        )
        self.assertEqual(dict(second.headers)["__dlq.errors.offset"], b"1")
        self.assertEqual(self.states(), set())

    def test_record_that_was_rejected_at_its_last_delivery_was_rejected(self) -> None:
        self.node.create("dlq.t", **ENABLED)
        self.produce(1)
        member = self.joined()
        for kind in (RELEASE, REJECT):
            member.fetch()
            member.acknowledge(self.p0, (0, 0, kind))
        self.node.clock.advance(0)
        [letter] = self.letters()
        headers = dict(letter.headers)
        self.assertEqual(headers["__dlq.errors.message"], b"Offset rejected by client.")
        self.assertEqual(headers["__dlq.errors.delivery.count"], b"2")

    def test_records_that_were_delivered_too_often_are_stored(self) -> None:
        self.node.create("dlq.t", **ENABLED)
        self.produce(1)
        member = self.joined()
        for _ in range(2):
            member.fetch()
            member.acknowledge(self.p0, (0, 0, RELEASE))
        [letter] = self.letters()
        headers = dict(letter.headers)
        self.assertEqual(headers["__dlq.errors.message"], b"Offset delivery count exceeded the threshold.")
        self.assertEqual(headers["__dlq.errors.delivery.count"], b"2")

    def test_accepted_records_are_not_stored(self) -> None:
        self.node.create("dlq.t", **ENABLED)
        self.produce(2)
        member = self.member()
        member.fetch(self.p0)
        member.acknowledge(self.p0, (0, 0, ACCEPT), (1, 1, REJECT))
        self.assertEqual(self.offsets(), [1])

    def test_record_is_copied_if_the_group_wants_that(self) -> None:
        self.set_dead_letters(**{"errors.deadletterqueue.copy.record.enable": "true"})
        self.node.create("dlq.t", **ENABLED)
        partition = self.node.broker.partitions.find("t", 0)
        partition.append(build([Record(0, 1000, b"key", b"value", (("trace", b"7"),))]), 1000)
        member = self.member()
        member.fetch(self.p0)
        member.acknowledge(self.p0, (0, 0, REJECT))
        [letter] = self.letters()
        self.assertEqual((letter.key, letter.value, letter.headers[0]), (b"key", b"value", ("trace", b"7")))
        self.assertEqual(letter.timestamp, self.node.broker.runtime.now_ms())

    def test_record_that_is_too_large_for_the_topic_is_not_copied(self) -> None:
        self.set_dead_letters(**{"errors.deadletterqueue.copy.record.enable": "true"})
        self.node.create("dlq.t", max_message_bytes="1000", **ENABLED)
        partition = self.node.broker.partitions.find("t", 0)
        partition.append(build([Record(0, 1000, b"key", b"v" * 2000)]), 1000)
        member = self.member()
        member.fetch(self.p0)
        member.acknowledge(self.p0, (0, 0, REJECT))
        [letter] = self.letters()
        self.assertEqual((letter.key, letter.value), (None, None))
        self.assertEqual(self.offsets(), [0])

    def test_many_letters_are_stored_in_batches_that_the_topic_accepts(self) -> None:
        self.node.create("dlq.t", max_message_bytes="2000", **ENABLED)
        self.rejected(250)
        self.assertEqual(self.offsets(), list(range(250)))

    def test_letters_are_in_the_partition_of_the_same_number(self) -> None:
        self.node.create("dlq.t", 2, **ENABLED)
        self.produce(1, index=1)
        member = self.member()
        member.fetch((self.topic, 1))
        member.acknowledge((self.topic, 1), (0, 0, REJECT))
        self.assertEqual((len(self.letters(index=0)), len(self.letters(index=1))), (0, 1))

    def test_letters_wait_for_their_topic(self) -> None:
        with capturedLogs() as events:
            member = self.rejected()
        self.assertIn("the topic does not exist", formatEvent(events[-1]))
        self.assertEqual(self.states(), {RecordState.ARCHIVING})
        self.assertEqual(acquired(member.fetch()), {})
        self.node.create("dlq.t", **ENABLED)
        self.node.clock.advance(1)
        self.assertEqual(self.offsets(), [0, 1])
        self.assertEqual(self.states(), set())

    def test_topic_must_take_dead_letters(self) -> None:
        self.node.create("dlq.t")
        with capturedLogs() as events:
            self.rejected()
        self.assertIn("set errors.deadletterqueue.group.enable=true", formatEvent(events[-1]))
        self.assertEqual(self.letters(), [])

    def test_letters_that_were_not_stored_are_stored_after_a_restart(self) -> None:
        with capturedLogs():
            self.rejected()
        self.restart()
        self.set_dead_letters()
        self.node.create("dlq.t", **ENABLED)
        self.assertEqual(acquired(self.member().fetch(self.p0)), {})
        self.assertEqual(self.offsets(), [0, 1])

    def test_letters_are_stored_once_while_their_end_cannot_be_stored(self) -> None:
        self.node.create("dlq.t", **ENABLED)
        write, errors = SharePersister.write, [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 3

        async def failing_write(persister: SharePersister, key: SharePartitionKey, change: StateWrite) -> ErrorCode:
            is_end = any(batch.state is RecordState.ARCHIVED for batch in change.batches)
            return errors.pop() if is_end and errors else await write(persister, key, change)

        with patch.object(SharePersister, "write", failing_write), capturedLogs():
            self.rejected()
            for seconds in (1, 2, 5):
                self.assertEqual(self.states(), {RecordState.ARCHIVING})
                self.node.clock.advance(seconds)
        self.assertEqual(self.states(), set())
        self.assertEqual(self.offsets(), [0, 1])

    def test_group_that_wants_no_letters_any_more_archives(self) -> None:
        with capturedLogs():
            self.rejected()
        self.set_dead_letters("")
        self.node.clock.advance(1)
        self.assertEqual(self.states(), set())


class CreatedTopicTests(ShareTests):
    settings = {**ShareTests.settings, "errors.deadletterqueue.auto.create.topics.enable": "true"}

    def test_broker_creates_the_topic_if_it_may(self) -> None:
        self.set_group(**self.earliest, **{"errors.deadletterqueue.topic.name": "dlq.t"})
        self.produce(1)
        member = self.member()
        member.fetch(self.p0)
        member.acknowledge(self.p0, (0, 0, REJECT))
        self.assertEqual(self.node.broker.partitions.find("dlq.t", 0).log.log_end_offset, 1)
        settings = self.node.broker.metadata.topic_settings("dlq.t")
        self.assertEqual(settings["errors.deadletterqueue.group.enable"], "true")
