"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs: settings seen, changed, kept and in force."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from pylogbroker.broker.apis import alter_configs, describe_configs, incremental_alter_configs
from pylogbroker.errors import ErrorCode
from pylogbroker.interfaces import NoRoom, Unavailable
from pylogbroker.tree.tree_file import TreeFile
from pylogbroker.wire.messages import alter_configs as alter_messages
from pylogbroker.wire.messages import incremental_alter_configs as incremental_messages
from pylogbroker.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tests.broker.log_lines import logged_lines
from tests.broker.nodes import NODE_ID, NodeTests

TOPIC, BROKER, LOGGER = 2, 4, 8
SET, DELETE, APPEND, SUBTRACT = range(4)
OWN, THIS_BROKERS, ALL_BROKERS, FILE, DEFAULT = 1, 2, 3, 4, 5
ME = str(NODE_ID)


class ConfigsTests(NodeTests):
    settings = {"log.retention.hours": "2", "log.segment.bytes": "1048576"}

    def setUp(self) -> None:
        super().setUp()
        self.node.create("t", 1, retention_ms="99")

    def describe(self, kind: int, name: str, *keys: str, version: int = 4, **asked: bool) -> Any:
        """The one result for a resource."""
        resource = DescribeConfigsResource(kind, name, list(keys) or None)
        request = DescribeConfigsRequest([resource], **asked)
        [result] = self.node.ask(describe_configs.handle, request, version).results
        self.assertEqual((result.resource_type, result.resource_name), (kind, name))
        return result

    def values(self, kind: int, name: str, *keys: str) -> dict[str, tuple[str | None, int]]:
        """The value and the source of each setting."""
        result = self.describe(kind, name, *keys)
        self.assertEqual((result.error_code, result.error_message), (ErrorCode.NONE, None))
        return {config.name: (config.value, config.config_source) for config in result.configs}

    def alter(self, kind: int, name: str, version: int = 2, check: bool = False, **settings: str | None) -> ErrorCode:
        """Replace all settings of a resource."""
        configs = [alter_messages.AlterableConfig(key.replace("_", "."), value) for key, value in settings.items()]
        resource = alter_messages.AlterConfigsResource(kind, name, configs)
        request = alter_messages.AlterConfigsRequest([resource], check)
        return self.reported(self.node.ask(alter_configs.handle, request, version), kind, name)

    def change(
        self,
        kind: int,
        name: str,
        *changes: tuple[str, int, str | None],
        version: int = 1,
        check: bool = False,
    ) -> ErrorCode:
        """Change some settings of a resource."""
        configs = [incremental_messages.AlterableConfig(*change) for change in changes]
        resource = incremental_messages.AlterConfigsResource(kind, name, configs)
        request = incremental_messages.IncrementalAlterConfigsRequest([resource], check)
        return self.reported(self.node.ask(incremental_alter_configs.handle, request, version), kind, name)

    def reported(self, answer: Any, kind: int, name: str) -> ErrorCode:
        [result] = answer.responses
        self.assertEqual((result.resource_type, result.resource_name), (kind, name))
        self.assertEqual(bool(result.error_message), result.error_code != ErrorCode.NONE)
        return ErrorCode(result.error_code)


class DescribeTests(ConfigsTests):
    def test_a_topics_settings_and_where_they_come_from(self) -> None:
        values = self.values(TOPIC, "t")
        self.assertEqual(values["retention.ms"], ("99", OWN))
        self.assertEqual(values["segment.bytes"], ("1048576", FILE))
        self.assertEqual(values["cleanup.policy"], ("delete", DEFAULT))
        self.assertEqual(list(values), sorted(values))
        self.assertGreaterEqual(len(values), 24)

    def test_chosen_settings(self) -> None:
        self.assertEqual(set(self.values(TOPIC, "t", "flush.ms", "no.such", "segment.ms")), {"flush.ms", "segment.ms"})
        self.assertEqual(set(self.values(BROKER, ME, "num.partitions")), {"num.partitions"})

    def test_every_version(self) -> None:
        for version in range(5):
            rows = {row.name: row for row in self.describe(TOPIC, "t", version=version).configs}
            self.assertEqual(rows["retention.ms"].value, "99")
            self.assertFalse(rows["retention.ms"].read_only)
            self.assertEqual(rows["cleanup.policy"].is_default, version == 0)
            self.assertFalse(rows["retention.ms"].is_default)
            self.assertEqual(rows["retention.ms"].config_source, -1 if version == 0 else OWN)
            self.assertEqual(rows["retention.ms"].config_type, 5 if version >= 3 else 0)

    def test_synonyms_and_documentation_when_asked_for(self) -> None:
        [row] = self.describe(TOPIC, "t", "retention.ms").configs
        self.assertEqual((row.synonyms, row.documentation), ([], None))
        asked = {"include_synonyms": True, "include_documentation": True}
        [row] = self.describe(TOPIC, "t", "retention.ms", **asked).configs
        self.assertEqual([(s.name, s.value, s.source) for s in row.synonyms[:2]], [
            ("retention.ms", "99", OWN),
            ("log.retention.hours", "2", FILE),
        ])  # fmt: skip
        self.assertIn(("log.retention.hours", "168", DEFAULT), [(s.name, s.value, s.source) for s in row.synonyms])
        self.assertTrue(row.documentation)

    def test_a_brokers_settings(self) -> None:
        values = self.values(BROKER, ME)
        self.assertEqual(values["log.retention.hours"], ("2", FILE))
        self.assertEqual(values["num.partitions"], ("1", DEFAULT))
        rows = {row.name: row for row in self.describe(BROKER, ME).configs}
        self.assertTrue(rows["broker.id"].read_only)
        self.assertFalse(rows["background.threads"].read_only)
        self.assertGreater(len(values), 60)

    def test_defaults_of_all_brokers_are_described_separately(self) -> None:
        self.assertEqual(self.values(BROKER, ""), {})
        self.change(BROKER, "", ("background.threads", SET, "3"))
        self.change(BROKER, ME, ("background.threads", SET, "4"))
        self.assertEqual(self.values(BROKER, ""), {"background.threads": ("3", ALL_BROKERS)})

    def test_no_loggers(self) -> None:
        self.assertEqual(self.values(LOGGER, ME), {})

    def test_errors(self) -> None:
        for kind, name, code in (
            (TOPIC, "u", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            (TOPIC, "a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
            (TOPIC, "", ErrorCode.INVALID_TOPIC_EXCEPTION),
            (BROKER, "99", ErrorCode.INVALID_REQUEST),
            (BROKER, "me", ErrorCode.INVALID_REQUEST),
            (LOGGER, "", ErrorCode.INVALID_REQUEST),
            (LOGGER, "99", ErrorCode.INVALID_REQUEST),
            (3, "t", ErrorCode.INVALID_REQUEST),
        ):
            result = self.describe(kind, name)
            self.assertEqual((result.error_code, result.configs), (code, []), (kind, name))
            self.assertTrue(result.error_message)

    def test_types_without_settings_are_named(self) -> None:
        expected = "have no settings here; those of type TOPIC, BROKER, BROKER_LOGGER, GROUP have"
        for kind, name in ((16, "CLIENT_METRICS"), (3, "3")):
            self.assertEqual(self.describe(kind, "t").error_message, f"Resources of type {name} {expected}")


class AlterTests(ConfigsTests):
    def test_every_version_replaces_all_of_a_topics_own(self) -> None:
        for version in range(3):
            self.alter(TOPIC, "t", retention_ms="1", flush_ms="1")
            self.assertEqual(self.alter(TOPIC, "t", version, flush_ms=str(version + 5)), ErrorCode.NONE)
            values = self.values(TOPIC, "t", "flush.ms", "retention.ms")
            self.assertEqual(values, {"flush.ms": (str(version + 5), OWN), "retention.ms": ("7200000", FILE)})

    def test_settings_apply_at_once_and_after_a_restart(self) -> None:
        self.alter(TOPIC, "t", segment_ms="123")
        self.assertEqual(self.node.broker.partitions.find("t", 0).log.config.segment_ms, 123)
        self.restart()
        self.assertEqual(self.values(TOPIC, "t", "segment.ms"), {"segment.ms": ("123", OWN)})
        self.assertEqual(self.node.broker.partitions.find("t", 0).log.config.segment_ms, 123)

    def test_validate_only_changes_nothing(self) -> None:
        self.assertEqual(self.alter(TOPIC, "t", check=True, flush_ms="1"), ErrorCode.NONE)
        self.assertEqual(self.alter(TOPIC, "t", check=True, flush_ms="x"), ErrorCode.INVALID_CONFIG)
        self.assertEqual(self.values(TOPIC, "t", "flush.ms")["flush.ms"][1], DEFAULT)

    def test_settings_that_cannot_be_stored_do_not_apply(self) -> None:
        with patch.object(TreeFile, "write", side_effect=Unavailable("disk full")):
            for kind, name in ((TOPIC, "t"), (BROKER, ME)):
                self.assertEqual(self.alter(kind, name, compression_type="gzip"), ErrorCode.UNKNOWN_SERVER_ERROR)
                self.assertNotEqual(self.values(kind, name, "compression.type")["compression.type"][0], "gzip")

    def test_a_full_disk_has_a_code_of_its_own(self) -> None:
        with patch.object(TreeFile, "write", side_effect=NoRoom("disk full")):
            for kind, name in ((TOPIC, "t"), (BROKER, ME)):
                self.assertEqual(self.alter(kind, name, compression_type="gzip"), ErrorCode.KAFKA_STORAGE_ERROR)

    def test_a_broker(self) -> None:
        self.alter(BROKER, ME, background_threads="2", num_recovery_threads_per_data_dir="5")
        self.alter(BROKER, ME, background_threads="3")
        self.assertEqual(self.values(BROKER, ME, "background.threads")["background.threads"], ("3", THIS_BROKERS))
        self.assertEqual(
            self.values(BROKER, ME, "num.recovery.threads.per.data.dir")["num.recovery.threads.per.data.dir"][1],
            DEFAULT,
        )

    def test_errors(self) -> None:
        for kind, name, settings, code in (
            (TOPIC, "u", {"flush.ms": "1"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            (TOPIC, "t", {"flush.ms": "often"}, ErrorCode.INVALID_CONFIG),
            (TOPIC, "t", {"no.such": "1"}, ErrorCode.INVALID_CONFIG),
            (TOPIC, "t", {"flush.ms": None}, ErrorCode.INVALID_REQUEST),
            (BROKER, "99", {}, ErrorCode.INVALID_REQUEST),
            (BROKER, ME, {"broker.id": "8"}, ErrorCode.INVALID_REQUEST),
            (BROKER, ME, {"background.threads": "none"}, ErrorCode.INVALID_REQUEST),
            (LOGGER, ME, {"root": "DEBUG"}, ErrorCode.INVALID_REQUEST),
            (TOPIC, "", {}, ErrorCode.INVALID_REQUEST),
            (TOPIC, "a b", {}, ErrorCode.INVALID_TOPIC_EXCEPTION),
            (1, "t", {}, ErrorCode.INVALID_REQUEST),
        ):
            self.assertEqual(self.alter(kind, name, **settings), code, (kind, name, settings))
        self.assertEqual(self.values(TOPIC, "t", "retention.ms"), {"retention.ms": ("99", OWN)})

    def test_named_twice(self) -> None:
        resource = alter_messages.AlterConfigsResource(TOPIC, "t", [])
        request = alter_messages.AlterConfigsRequest([resource, resource])
        answer = self.node.ask(alter_configs.handle, request)
        self.assertEqual([r.error_code for r in answer.responses], [ErrorCode.INVALID_REQUEST] * 2)
        twice = [alter_messages.AlterableConfig("flush.ms", "1")] * 2
        request = alter_messages.AlterConfigsRequest([alter_messages.AlterConfigsResource(TOPIC, "t", twice)])
        answer = self.node.ask(alter_configs.handle, request)
        self.assertEqual(self.reported(answer, TOPIC, "t"), ErrorCode.INVALID_REQUEST)


class IncrementalTests(ConfigsTests):
    def test_every_version_changes_only_the_named_settings(self) -> None:
        for version in range(2):
            changed = self.change(TOPIC, "t", ("flush.ms", SET, str(version + 5)), version=version)
            self.assertEqual(changed, ErrorCode.NONE)
            values = self.values(TOPIC, "t", "flush.ms", "retention.ms")
            self.assertEqual(values, {"flush.ms": (str(version + 5), OWN), "retention.ms": ("99", OWN)})

    def test_deleting_goes_back_to_the_default(self) -> None:
        self.assertEqual(self.change(TOPIC, "t", ("retention.ms", DELETE, None)), ErrorCode.NONE)
        self.assertEqual(self.values(TOPIC, "t", "retention.ms"), {"retention.ms": ("7200000", FILE)})
        self.assertEqual(self.change(TOPIC, "t", ("retention.ms", DELETE, None)), ErrorCode.NONE)

    def policy(self) -> str | None:
        return self.values(TOPIC, "t", "cleanup.policy")["cleanup.policy"][0]

    def test_lists(self) -> None:
        for operation, text, after in (
            (APPEND, "compact", "delete,compact"),
            (APPEND, "compact", "delete,compact"),
            (SUBTRACT, "delete", "compact"),
            (SET, "delete", "delete"),
        ):
            self.assertEqual(self.change(TOPIC, "t", ("cleanup.policy", operation, text)), ErrorCode.NONE)
            self.assertEqual(self.policy(), after)
        self.assertTrue(self.node.broker.partitions.find("t", 0).log.config.deletes)

    def test_a_topic_without_a_cleanup_policy_keeps_all_segments(self) -> None:
        """Kafka takes an empty list in all three ways, and then deletes nothing by age or size."""
        for changes in (
            [("cleanup.policy", SUBTRACT, "delete")],
            [("cleanup.policy", SET, "")],
            [("cleanup.policy", SET, "compact"), ("cleanup.policy", SUBTRACT, "compact")],
        ):
            self.change(TOPIC, "t", ("cleanup.policy", DELETE, None))
            for change in changes:
                self.assertEqual(self.change(TOPIC, "t", change), ErrorCode.NONE, change)
            self.assertEqual(self.policy(), "")
            partition = self.node.broker.partitions.find("t", 0)
            self.assertFalse(partition.log.config.deletes)
            self.assertFalse(partition.log.config.compacts)
            self.assertEqual(partition.delete_policies, ())
        self.restart()
        self.assertEqual(self.policy(), "")
        self.assertEqual(self.change(TOPIC, "t", ("cleanup.policy", APPEND, "delete")), ErrorCode.NONE)
        self.assertEqual(self.policy(), "delete")

    def test_errors_leave_everything_as_it_is(self) -> None:
        for name, change, code in (
            ("t", ("retention.ms", APPEND, "1"), ErrorCode.INVALID_CONFIG),
            ("t", ("retention.ms", SUBTRACT, "1"), ErrorCode.INVALID_CONFIG),
            ("t", ("no.such", APPEND, "1"), ErrorCode.INVALID_CONFIG),
            ("t", ("retention.ms", SET, None), ErrorCode.INVALID_REQUEST),
            ("t", ("retention.ms", 4, "1"), ErrorCode.INVALID_REQUEST),
            ("t", ("retention.ms", SET, "x"), ErrorCode.INVALID_CONFIG),
            ("u", ("retention.ms", SET, "1"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ):
            self.assertEqual(self.change(TOPIC, name, change), code, change)
            self.assertEqual(self.change(TOPIC, "t", ("flush.ms", SET, "1"), change), code) if name == "t" else None
        self.assertEqual(self.values(TOPIC, "t", "flush.ms")["flush.ms"][1], DEFAULT)
        self.assertEqual(self.values(TOPIC, "t", "retention.ms"), {"retention.ms": ("99", OWN)})

    def test_more_settings_than_there_are(self) -> None:
        """They are rejected before each is looked up."""
        many = [(f"no.such{number}", DELETE, None) for number in range(1001)]
        self.assertEqual(self.change(TOPIC, "t", *many), ErrorCode.INVALID_CONFIG)
        self.assertEqual(self.change(TOPIC, "t", *many[1:]), ErrorCode.NONE)

    def test_a_list_that_grows_too_long_to_be_described(self) -> None:
        """Kafka has the same limit."""
        name = "leader.replication.throttled.replicas"
        half = [",".join(f"{partition}:{start}" for partition in range(2500)) for start in (100, 200)]
        self.assertEqual(self.change(TOPIC, "t", (name, SET, half[0])), ErrorCode.NONE)
        self.assertEqual(self.change(TOPIC, "t", (name, APPEND, half[1])), ErrorCode.INVALID_CONFIG)
        for version in range(5):
            [config] = self.describe(TOPIC, "t", name, version=version).configs
            self.assertEqual(config.value, half[0])

    def test_validate_only_changes_nothing(self) -> None:
        self.assertEqual(self.change(TOPIC, "t", ("flush.ms", SET, "1"), check=True), ErrorCode.NONE)
        self.assertEqual(self.values(TOPIC, "t", "flush.ms")["flush.ms"][1], DEFAULT)
        self.assertEqual(self.change(BROKER, ME, ("background.threads", SET, "9"), check=True), ErrorCode.NONE)
        self.assertEqual(self.values(BROKER, ME, "background.threads")["background.threads"][1], DEFAULT)

    def test_brokers_settings_hold_at_once_and_after_a_restart(self) -> None:
        self.change(BROKER, "", ("background.threads", SET, "3"), ("log.retention.ms", SET, "60000"))
        self.assertEqual(self.node.broker.config.integer("background.threads"), 3)
        self.change(BROKER, ME, ("background.threads", SET, "4"))
        self.restart()
        self.assertEqual(self.values(BROKER, ME, "background.threads")["background.threads"], ("4", THIS_BROKERS))
        self.change(BROKER, ME, ("background.threads", DELETE, None))
        self.assertEqual(self.values(BROKER, ME, "background.threads")["background.threads"], ("3", ALL_BROKERS))
        self.change(TOPIC, "t", ("retention.ms", DELETE, None))
        self.assertEqual(self.values(TOPIC, "t", "retention.ms"), {"retention.ms": ("60000", ALL_BROKERS)})

    def test_settings_that_kafka_defines_are_kept_without_effect(self) -> None:
        with logged_lines() as lines:
            changed = self.change(
                BROKER, ME, ("sasl.kerberos.min.time.before.relogin", SET, "60001"), ("num.network.threads", SET, "4")
            )
            self.assertEqual(changed, ErrorCode.NONE)
            self.assertEqual(self.change(BROKER, ME, ("num.network.threads", SET, "4")), ErrorCode.NONE)
        self.assertEqual(
            lines,
            [
                "settings of the broker are kept and have no effect: "
                "sasl.kerberos.min.time.before.relogin (of SASL, PLAIN, SCRAM and OAUTHBEARER are offered to clients), "
                "num.network.threads (one thread does all network work)"
            ],
        )
        self.restart()
        kept = self.values(BROKER, ME, "sasl.kerberos.min.time.before.relogin", "num.network.threads")
        self.assertEqual(
            kept,
            {
                "num.network.threads": ("4", THIS_BROKERS),
                "sasl.kerberos.min.time.before.relogin": ("60001", THIS_BROKERS),
            },
        )
        [row] = self.describe(BROKER, ME, "num.network.threads", include_documentation=True).configs
        self.assertEqual(row.documentation, "Has no effect: one thread does all network work.")
        self.assertFalse(row.read_only)
        self.change(BROKER, ME, ("num.network.threads", DELETE, None))
        self.assertEqual(self.values(BROKER, ME, "num.network.threads"), {"num.network.threads": ("3", DEFAULT)})

    def test_secrets_of_one_listener_are_hidden(self) -> None:
        name = "listener.name.outside.ssl.keystore.password"
        self.assertEqual(self.change(BROKER, ME, (name, SET, "secret")), ErrorCode.NONE)
        [row] = self.describe(BROKER, ME, name).configs
        self.assertEqual((row.value, row.is_sensitive, row.config_source), (None, True, THIS_BROKERS))

    def test_settings_that_kafka_cannot_change_either_are_rejected(self) -> None:
        for name, value in (
            ("zookeeper.connect", "host"),
            ("authorizer.class.name", "Authorizer"),
            ("num.network.threads", "0"),
            ("num.network.thread", "4"),
            ("retention.ms", "4"),
        ):
            self.assertEqual(self.change(BROKER, ME, (name, SET, value)), ErrorCode.INVALID_REQUEST)
        changed = self.change(BROKER, "", ("sasl.kerberos.min.time.before.relogin", SET, "60001"))
        self.assertEqual(changed, ErrorCode.INVALID_REQUEST)

    def test_a_topics_settings_that_only_kafka_4_has_are_kept(self) -> None:
        self.assertEqual(self.change(TOPIC, "t", ("max.decompressed.message.bytes", SET, "5")), ErrorCode.NONE)
        [row] = self.describe(TOPIC, "t", "max.decompressed.message.bytes", include_documentation=True).configs
        self.assertEqual(
            (row.value, row.documentation),
            ("5", "Has no effect: the broker has a fixed limit for decompressed batches."),
        )

    def test_a_topics_settings_without_effect_are_logged_once_in_a_while(self) -> None:
        change = ("max.decompressed.message.bytes", SET, "5")
        note = "max.decompressed.message.bytes (the broker has a fixed limit for decompressed batches)"
        with logged_lines() as lines:
            self.change(TOPIC, "t", change)
            self.change(TOPIC, "t", change, ("flush.ms", SET, "1"))
            self.change(TOPIC, "t", ("max.decompressed.message.bytes", SET, "6"))
            self.node.clock.advance(60)
            self.node.create("u", 1, max_decompressed_message_bytes="5")
            self.node.clock.advance(60)
            self.alter(TOPIC, "u", max_decompressed_message_bytes="6")
        self.assertEqual(lines, [f"settings of topic {name} are kept and have no effect: {note}" for name in "tuu"])

    def test_loggers_cannot_be_changed(self) -> None:
        self.assertEqual(self.change(LOGGER, ME, ("root", SET, "DEBUG")), ErrorCode.INVALID_CONFIG)

    def test_named_twice(self) -> None:
        changes = (("flush.ms", SET, "1"), ("flush.ms", DELETE, None))
        self.assertEqual(self.change(TOPIC, "t", *changes), ErrorCode.INVALID_REQUEST)
