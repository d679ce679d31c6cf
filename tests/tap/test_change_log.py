"""Changes in a broker, as lines of its log."""

from __future__ import annotations

import weakref

from twisted.internet.defer import ensureDeferred
from twisted.internet.task import Clock
from twisted.logger import LogEvent, LogLevel, formatEvent, globalLogPublisher

from pylogbroker.groups import Join, NewGeneration
from pylogbroker.metadata.delta import TopicDeleted
from pylogbroker.metadata.image import ClusterImage, broker_resource, topic_resource
from pylogbroker.tap.change_log import ChangeLog, printable, shown_changes
from tests.broker.nodes import NodeTests


class ChangeLogTests(NodeTests):
    def setUp(self) -> None:
        super().setUp()
        self.node.create("old", retention_ms="500")
        self.changes = ChangeLog(self.node.broker)
        self.changes.attach()
        self.lines: list[str] = []  # of the level that is shown by default
        self.details: list[str] = []
        observe = lambda event: self.lines_of(event).append(formatEvent(event))  # noqa: E731
        globalLogPublisher.addObserver(observe)
        self.addCleanup(globalLogPublisher.removeObserver, observe)

    def lines_of(self, event: LogEvent) -> list[str]:
        return self.details if event["log_level"] is LogLevel.debug else self.lines

    def done(self, change: object) -> None:
        self.successResultOf(ensureDeferred(change))  # type: ignore[arg-type]

    def test_a_topic_from_beginning_to_end(self) -> None:
        controller = self.node.broker.controller
        self.node.create("t")
        self.done(controller.create_partitions("t", 3))
        self.done(
            controller.alter_config(topic_resource("t"), lambda own: {"retention.ms": "1000", "segment.bytes": "100"})
        )
        self.done(controller.alter_config(topic_resource("t"), lambda own: {"retention.ms": "2000"}))
        self.done(controller.alter_config(topic_resource("t"), lambda own: own))
        self.done(controller.delete_topic("t"))
        self.assertEqual(
            self.lines,
            [
                "created topic t with 1 partition",
                "added 2 partitions to topic t, which has 3 now",
                "changed settings of topic t: retention.ms=1000, segment.bytes=100",
                "changed settings of topic t: retention.ms=2000 (was 1000), segment.bytes unset (was 100)",
                "changed settings of topic t: no value differs",
                "deleted topic t with 3 partitions",
            ],
        )

    def test_a_deleted_topic_is_logged_once_and_let_go(self) -> None:
        self.node.create("t")
        topic = self.node.broker.metadata.image.topics["t"]
        for _ in range(2):
            self.changes.on_delta((TopicDeleted(topic),), self.node.broker.metadata.image, ClusterImage())
        self.done(self.node.broker.controller.delete_topic("t"))
        self.assertEqual(self.lines.count("deleted topic t with 1 partition"), 1)
        image = weakref.ref(topic)
        del topic
        self.assertIsNone(image())

    def test_a_topic_with_settings(self) -> None:
        self.node.create("c", 2, cleanup_policy="compact", segment_bytes="100")
        self.assertEqual(self.lines, ["created topic c with 2 partitions: cleanup.policy=compact, segment.bytes=100"])

    def test_a_topic_that_was_there_before(self) -> None:
        self.done(self.node.broker.controller.alter_config(topic_resource("old"), lambda own: {}))
        self.assertEqual(self.lines, ["changed settings of topic old: retention.ms unset (was 500)"])

    def test_settings_of_brokers(self) -> None:
        alter = self.node.broker.controller.alter_config
        all_brokers, this_broker = broker_resource(None), broker_resource(7)
        self.done(alter(all_brokers, lambda own: {"log.retention.ms": "1000"}))
        self.done(alter(all_brokers, lambda own: {"log.retention.ms": "2000"}))
        self.done(alter(this_broker, lambda own: {"log.cleaner.threads": "2"}))
        self.done(alter(all_brokers, lambda own: {}))
        self.assertEqual(
            self.lines,
            [
                "changed settings of all brokers: log.retention.ms=1000",
                "changed settings of all brokers: log.retention.ms=2000 (was 1000)",
                "changed settings of broker 7: log.cleaner.threads=2",
                "changed settings of all brokers: log.retention.ms unset (was 2000)",
            ],
        )

    def test_generations_are_logged_at_a_bounded_rate(self) -> None:
        clock: Clock = self.node.clock
        for generation in range(1, 101):
            self.changes.on_new_generation(NewGeneration("g", generation, 2, "range"))
        self.changes.on_new_generation(NewGeneration("empty", 5, 0, None))
        self.assertEqual(self.lines[0], "group g: generation 1 has 2 members, assignment by range")
        self.assertEqual(self.lines[-1], "group empty: generation 5 has 0 members")
        few = len(self.lines) - 1
        self.assertLessEqual(few, 10)
        self.assertEqual(len(self.details), 100 - few)
        self.assertEqual(self.details[-1], "group g: generation 100 has 2 members, assignment by range")
        clock.advance(60)
        self.assertEqual(self.lines[-1], f"group g: {100 - few} more generations within a minute")

    def test_many_groups_together_are_bounded_too(self) -> None:
        for number in range(5000):
            self.changes.on_new_generation(NewGeneration(f"g{number}", 1, 1, "range"))
        reported = len(self.lines)
        self.assertLess(reported, 300)
        self.done(self.changes.stop())
        self.assertEqual(self.lines[reported:], [f"other groups: {5000 - reported} more generations within a minute"])

    def test_a_group_that_rebalances(self) -> None:
        coordinator = self.node.broker.groups
        self.done(self.node.broker.group_service.ensure_topic())
        now = self.node.broker.runtime.now_ms
        answers: list[object] = []
        join = Join("g", "", "client", "host", 10_000, 10_000, "consumer", (("range", b""),))
        coordinator.join(join, answers.append, now())
        self.node.clock.advance(4)
        self.assertEqual(len(answers), 1)
        self.assertEqual(self.lines[1:], ["group g: generation 1 has 1 member, assignment by range"])


def test_client_names_cannot_break_a_log_line() -> None:
    assert printable("a\nb\x00c é") == "a\\nb\\x00c é"
    assert printable("x" * 1000) == "x" * 200 + "..."
    assert shown_changes({"a\nb": (None, "c\nd")}) == "a\\nb=c\\nd"


def test_secrets_are_not_shown() -> None:
    for name in ("ssl.key.password", "listener.name.in.ssl.keystore.password", "listener.name.in.unknown"):
        assert shown_changes({name: (None, "secret")}) == f"{name} (not shown)"
    assert shown_changes({"listener.name.in.ssl.client.auth": (None, "none")}).endswith(".ssl.client.auth=none")
