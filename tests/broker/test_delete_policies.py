"""Delete policies in a broker: chosen by settings, rejected by other plugins, and called at their time."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, cast

import attrs
from zope.interface import implementer

from pylogbroker.broker.apis import create_topics, incremental_alter_configs
from pylogbroker.broker.partitions.delete_policies import DeletePolicies
from pylogbroker.errors import ErrorCode
from pylogbroker.interfaces import IDeletePolicy, IDeletePolicyFactory, LogView, SegmentView
from pylogbroker.named_plugins import Installed
from pylogbroker.storage import Log
from pylogbroker.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from pylogbroker.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.broker.log_lines import logged_lines
from tests.broker.nodes import NODE_ID, NodeTests
from tests.broker.trees import now

TOPIC, BROKER = 2, 4
SET, APPEND = 0, 2
INSTALLED = "archive-parquet, modification-time, record-time, size; no others are installed"
KNOWN = "modification-time, oldest, record-time, size; no others are installed"


@implementer(IDeletePolicy)
@attrs.frozen
class Oldest:
    """Names the oldest segments, or raises."""

    count: int
    settings: Mapping[str, object]
    asked: list[LogView]

    def deletable(self, log: LogView, now_ms: int) -> Iterable[SegmentView]:
        self.asked.append(log)
        if not self.count:
            raise RuntimeError("a mistake")
        if self.count == 666:
            raise SystemExit(3)
        return log.segments[: self.count]


@implementer(IDeletePolicyFactory)
@attrs.define
class OldestFactory:
    """A plugin as third parties write them."""

    name: str = "oldest"
    made: list[Oldest] = attrs.field(factory=list)
    asked: list[LogView] = attrs.field(factory=list)
    limit: int = 2**63

    def make(self, argument: str, settings: Mapping[str, object]) -> IDeletePolicy:
        if not argument.isdecimal():
            raise ValueError("expected a number behind the colon")
        if cast(int, settings["retention.ms"]) >= self.limit:
            raise ValueError(f"expected retention.ms below {self.limit}")
        if argument == "13":
            raise SystemExit(3)
        self.made.append(Oldest(int(argument), settings, self.asked))
        return self.made[-1]


class DeletePolicyTests(NodeTests):
    settings = {"log.retention.check.interval.ms": "10000", "log.segment.delete.delay.ms": "0"}

    def setUp(self) -> None:
        super().setUp()
        self.plugin = OldestFactory()
        self.offer(self.plugin)

    def offer(self, *factories: Any) -> None:
        """Install further policies, as if before the broker's start."""
        settings = self.node.broker.partitions.settings
        names = "modification-time", "record-time", "size"
        built_in = {name: settings._delete_policies._installed.plugins[name] for name in names}
        settings._delete_policies = DeletePolicies(
            Installed(built_in | {factory.name: factory for factory in factories})
        )
        self.node.broker.config.add_topic_check(settings._delete_policies.check)

    def log(self, topic: str = "t") -> Log:
        return self.node.broker.partitions.find(topic, 0).log

    def fill(self, topic: str = "t", segments: int = 5) -> None:
        """Append `segments` segments of one record."""
        for number in range(segments):
            if number:
                self.log(topic).roll(self.node.broker.runtime.now_ms())
            self.node.produce(topic, 0, self.node.broker.runtime.now_ms())

    def starts(self, *topics: str) -> list[int]:
        """Return the start offsets of the logs after the next round."""
        self.node.clock.advance(10)
        return [self.log(topic).log_start_offset for topic in topics]

    def create(self, name: str, **settings: str) -> tuple[int, str | None]:
        configs = [CreatableTopicConfig(key.replace("_", "."), value) for key, value in settings.items()]
        request = CreateTopicsRequest([CreatableTopic(name, 1, 1, [], configs)], 1000)
        [answer] = self.node.ask(create_topics.handle, request, 5).topics
        return answer.error_code, answer.error_message

    def alter(self, kind: int, name: str, setting: str, text: str, how: int = SET) -> tuple[int, str | None]:
        resource = AlterConfigsResource(kind, name, [AlterableConfig(setting, how, text)])
        [answer] = self.node.ask(incremental_alter_configs.handle, IncrementalAlterConfigsRequest([resource])).responses
        return answer.error_code, answer.error_message

    def test_a_topic_chooses(self) -> None:
        for topic, policies in {"two": "oldest:2", "plain": "record-time,size", "all": "size,oldest:9"}.items():
            self.node.create(topic, delete_policies=policies)
            self.fill(topic)
        self.assertEqual(self.starts("two", "plain", "all"), [2, 0, 5])
        self.assertEqual(self.starts("two", "plain", "all"), [4, 0, 5])
        self.assertEqual(
            sorted(file for file in os.listdir(self.log("two").path) if file.endswith(".kafka")),
            ["00000000000000000004.kafka"],
        )

    def test_a_policy_gets_segments_and_settings(self) -> None:
        self.node.create("t", delete_policies="oldest:1", retention_ms="1234")
        self.fill(segments=2)
        at, size = self.node.broker.runtime.now_ms(), self.log().segments[0].size
        self.starts("t")
        [view] = self.plugin.asked
        modified = [int(os.stat(segment.path).st_mtime * 1000) for segment in self.log().segments]
        self.assertEqual((view.topic, view.partition), ("t", 0))
        self.assertEqual(
            view.segments,
            (
                SegmentView(0, 1, size, at, view.segments[0].modified_ms, active=False),
                SegmentView(1, 2, size, at, modified[0], active=True),
            ),
        )
        self.assertEqual(self.plugin.made[-1].settings["retention.ms"], 1234)
        with self.assertRaises(TypeError):
            self.plugin.made[-1].settings["retention.ms"] = 0  # type: ignore[index]

    def test_without_cleanup_by_deletion_none_is_asked(self) -> None:
        self.node.create("t", delete_policies="oldest:1")
        self.fill()
        self.alter(TOPIC, "t", "cleanup.policy", "compact")
        self.assertEqual((self.starts("t"), self.plugin.asked), ([0], []))

    def test_all_topics_follow_the_brokers_setting_at_once(self) -> None:
        self.node.create("t")
        self.node.create("own", delete_policies="size")
        for topic in ("t", "own"):
            self.fill(topic)
        self.assertEqual(self.alter(BROKER, str(NODE_ID), "log.delete.policies", "oldest:3"), (ErrorCode.NONE, None))
        self.assertEqual(self.starts("t", "own"), [3, 0])
        self.assertEqual(self.alter(TOPIC, "own", "delete.policies", "oldest:1", APPEND), (ErrorCode.NONE, None))
        self.assertEqual(self.starts("t", "own"), [5, 1])

    def test_unknown_policies_are_rejected(self) -> None:
        self.node.create("t")
        unknown = f"delete.policies: 'odlest' is not accepted; expected any of {KNOWN}"
        argument = "delete.policies: 'oldest:x' is not accepted; expected a number behind the colon"
        self.assertEqual(self.create("u", delete_policies="size,odlest"), (ErrorCode.INVALID_CONFIG, unknown))
        self.assertEqual(self.create("u", delete_policies="oldest:x"), (ErrorCode.INVALID_CONFIG, argument))
        self.assertEqual(self.create("u", delete_policies="oldest:3"), (ErrorCode.NONE, None))
        for how in SET, APPEND:
            self.assertEqual(
                self.alter(TOPIC, "t", "delete.policies", "odlest", how), (ErrorCode.INVALID_CONFIG, unknown)
            )
        for name in "", str(NODE_ID):
            self.assertEqual(
                self.alter(BROKER, name, "log.delete.policies", "odlest"),
                (ErrorCode.INVALID_REQUEST, f"log.{unknown}"),
            )
        self.assertEqual(self.alter(TOPIC, "t", "retention.ms", "5"), (ErrorCode.NONE, None))

    def test_a_policy_that_raises_is_logged_once(self) -> None:
        self.node.create("t", 1, delete_policies="oldest:0,size", retention_bytes="0")
        self.fill()
        with logged_lines() as lines:
            self.assertEqual(self.starts("t"), [5])  # the other policy goes on
            self.fill()
            self.starts("t")
        reported = [line for line in lines if "oldest" in line]
        self.assertEqual(
            reported, ["the delete policy oldest:0 deletes nothing: asked about t-0, it raised RuntimeError"]
        )
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)
        self.assertGreater(len(self.plugin.asked), 1)

    def test_a_policy_that_keeps_raising_is_logged_once_an_hour(self) -> None:
        self.node.create("t", 1, delete_policies="oldest:0")
        self.fill()
        with logged_lines() as lines:
            for _ in range(3 * 360 + 1):
                self.starts("t")
        self.assertEqual(len([line for line in lines if "oldest" in line]), 4)
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 4)

    def test_stored_unknown_policies_do_not_block_other_settings(self) -> None:
        self.node.create("t", delete_policies="oldest:1,size")
        self.alter(BROKER, "", "log.delete.policies", "oldest:1")
        self.restart()  # without the plugin
        gone = f"'oldest:1' is not accepted; expected any of {INSTALLED}"
        self.assertEqual(self.alter(TOPIC, "t", "retention.bytes", "0"), (ErrorCode.NONE, None))
        self.assertEqual(self.alter(TOPIC, "t", "delete.policies", "record-time", APPEND), (ErrorCode.NONE, None))
        self.assertEqual(self.node.broker.metadata.topic_settings("t")["delete.policies"], "oldest:1,size,record-time")
        self.assertEqual(
            self.alter(TOPIC, "t", "delete.policies", "oldest:2"),
            (ErrorCode.INVALID_CONFIG, "delete.policies: " + gone.replace(":1", ":2")),
        )
        self.assertEqual(self.alter(BROKER, "", "log.cleaner.backoff.ms", "900"), (ErrorCode.NONE, None))
        self.assertEqual(
            self.create("new", delete_policies="oldest:1"), (ErrorCode.INVALID_CONFIG, f"delete.policies: {gone}")
        )

    def test_a_policy_may_reject_other_settings(self) -> None:
        """A policy may reject a value of another setting."""
        self.node.create("t", delete_policies="oldest:1")
        self.plugin.limit = 1000
        rejected = "delete.policies: 'oldest:1' is not accepted; expected retention.ms below 1000"
        self.assertEqual(self.alter(TOPIC, "t", "retention.bytes", "7"), (ErrorCode.NONE, None))
        self.assertEqual(self.alter(TOPIC, "t", "retention.ms", "999"), (ErrorCode.NONE, None))
        self.assertEqual(self.alter(TOPIC, "t", "retention.ms", "1000"), (ErrorCode.INVALID_CONFIG, rejected))

    def test_a_policy_that_raises_system_exit_does_not_end_the_broker(self) -> None:
        self.node.create("bad", delete_policies="oldest:666")
        self.node.create("good", delete_policies="oldest:1")
        for topic in ("bad", "good"):
            self.fill(topic)
        self.assertEqual(self.starts("bad", "good"), [0, 1])
        self.assertEqual(self.starts("bad", "good"), [0, 2])
        self.assertEqual(len(self.flushLoggedErrors(SystemExit)), 1)
        code, message = self.create("unmade", delete_policies="oldest:13")
        self.assertEqual(code, ErrorCode.INVALID_CONFIG)
        self.assertIn("making it failed with SystemExit(3)", message or "")

    def test_a_missing_policy_is_logged_once_an_hour_while_configured(self) -> None:
        for topic in ("t", "u", "v"):
            self.node.create(topic, delete_policies="oldest:1")
        self.restart()  # without the plugin
        why = f"'oldest:1' is not accepted; expected any of {INSTALLED}"
        with logged_lines() as lines:
            for _ in range(2 * 360):
                self.node.clock.advance(10)
        line = f"a delete policy deletes nothing in t, u, v: delete.policies: {why}"
        self.assertEqual([each for each in lines if "delete policy" in each], [line] * 3)
        self.alter(TOPIC, "t", "delete.policies", "size")
        now(self.node.broker.controller.delete_topic("v"))
        with logged_lines() as lines:
            for _ in range(2 * 360):
                self.node.clock.advance(10)
        self.assertEqual([each for each in lines if "delete policy" in each], [line.replace("t, u, v", "u")] * 2)

    def test_a_missing_policy_deletes_nothing_and_blocks_no_other(self) -> None:
        self.node.create("t", delete_policies="oldest:1,size", retention_bytes="-1")
        self.node.create("u", delete_policies="oldest:1")
        self.alter(BROKER, "", "log.delete.policies", "oldest:1")
        for number in range(12):
            self.node.create(f"other{number:02}")
        self.node.create("fine", delete_policies="size")
        self.fill()
        with logged_lines() as lines:
            self.restart()  # without the plugin
            self.node.clock.advance(0)
        why = f"'oldest:1' is not accepted; expected any of {INSTALLED}"
        others = ", ".join(f"other{number:02}" for number in range(10))
        self.assertEqual(
            sorted(line for line in lines if "delete policy" in line),
            [
                f"a delete policy deletes nothing in {others} and 2 others: log.delete.policies: {why}",
                f"a delete policy deletes nothing in t, u: delete.policies: {why}",
            ],
        )
        self.assertEqual(self.starts("t"), [0])
        self.assertEqual(self.create("v"), (ErrorCode.NONE, None))
        self.assertEqual(self.alter(TOPIC, "v", "retention.ms", "5"), (ErrorCode.NONE, None))
        self.alter(TOPIC, "t", "delete.policies", "size")
        self.alter(TOPIC, "t", "retention.bytes", "0")
        self.assertEqual(self.starts("t"), [5])
