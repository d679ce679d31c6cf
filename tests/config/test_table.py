"""The table against Kafka's own definitions, printed by the classes of its releases."""

from __future__ import annotations

import re
from pathlib import Path

import attrs

import pylogbroker
from pylogbroker.config import BROKER, SETTINGS, TOPIC, BrokerConfig, ConfigType, Mode, Setting
from pylogbroker.config.value_kinds import render
from pylogbroker.storage import LogConfig
from tests.config.kafka_releases import PACKAGED, Defined, defined, packaged_text, release_3_9

KAFKA = {(row.scope, row.name): row for row in release_3_9()}
DEFINED = defined()

# Where the table differs from Kafka, and why.
OTHER_DEFAULTS = {
    "group.coordinator.rebalance.protocols": ("classic", "consumer", "streams"),  # as in Kafka 4
    "group.consumer.migration.policy": "bidirectional",  # as in Kafka 4; in 3.9 it is a preview
    "group.consumer.assignors": ("uniform", "range"),  # Kafka has the classes of these names
    "listeners": "PLAINTEXT://127.0.0.1:9092",  # there are no passwords: who opens a broker to a network says so
    "log.dir": "data",  # /tmp/kafka-logs is another layout's, and is gone after a restart of the machine
    "socket.receive.buffer.bytes": -1,  # Kafka's 100 KiB keep the system from adapting the buffers
    "socket.send.buffer.bytes": -1,
    "socket.listen.backlog.size": 1024,  # beyond 50 connections at once each waits a second
    "sasl.enabled.mechanisms": ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"),  # GSSAPI is not offered
    "listener.security.protocol.map": BROKER["listener.security.protocol.map"].default,  # Kafka's has no order
}

# Settings that Kafka does not have, and why.
OWN = {
    ("broker", "remote.log.storage"),  # Kafka's remote storages are classes written in Java
    ("broker", "remote.log.cache.bytes"),  # Kafka caches indexes on the disk, and no records
    ("broker", "log.delete.policies"),  # delete policies are plugins
    ("broker", "logger.levels"),  # Kafka has a file for log4j
    ("broker", "logger.format"),
    ("broker", "api.versions.release"),  # Kafka 4 has no ZooKeeper, and so no cluster with older releases
    ("broker", "client.telemetry.receivers"),  # Kafka has metric.reporters, which are classes written in Java
    ("broker", "initial.features"),  # Kafka's storage is formatted by a tool, which has this option
    ("topic", "delete.policies"),
    ("broker", "follower.replication.throttled.rate"),  # Kafka has it too, but not among a broker's settings
    ("broker", "leader.replication.throttled.rate"),
    ("broker", "replica.alter.log.dirs.io.max.bytes.per.second"),
    ("broker", "super.users"),  # Kafka's authorizer defines these itself
    ("broker", "allow.everyone.if.no.acl.found"),
    ("broker", "max.partitions"),  # a broker of Kafka is protected by quotas and authorization
    ("broker", "ssl.store.check.interval.ms"),  # Kafka reads stores again only when it is asked to
    ("broker", "connection.setup.max.per.ip"),
    ("broker", "connection.setup.timeout.ms"),  # a broker of Kafka waits for ten minutes
    ("broker", "java.security.auth.login.config"),  # a property of the Java virtual machine
    ("broker", "users"),  # Kafka has them in the tree, and in settings
    ("broker", "users.check.interval.ms"),
    ("broker", "testing.faults"),  # Kafka injects no faults
    ("broker", "reactor.stall.warn.ms"),  # one thread serves all connections
    ("broker", "access.control.allow.origin"),  # Confluent's REST proxy has these
    ("broker", "access.control.allow.methods"),
    ("broker", "access.control.allow.headers"),
    ("broker", "http.listeners"),  # a broker of Kafka has no HTTP server
    ("broker", "http.allowed.hosts"),
    ("broker", "http.max.connections"),
    ("broker", "metrics.partitions.enable"),
    ("topic", "confluent.key.schema.validation"),  # names of Confluent Server
    ("topic", "confluent.value.schema.validation"),
    ("topic", "confluent.key.subject.name.strategy"),
    ("topic", "confluent.value.subject.name.strategy"),
    ("topic", "schema.validation.content"),
    ("broker", "schema.registry.listeners"),  # Kafka has no schema registry
    ("broker", "schema.registry.advertised.url"),
    ("broker", "schema.registry.topic.replication.factor"),
    ("broker", "schema.registry.url"),  # a broker of Kafka shows no records
    ("broker", "schema.registry.basic.auth.user.info"),
    ("broker", "schema.registry.bearer.auth.token"),
    ("broker", "schema.registry.ssl.ca.location"),
    ("broker", "schema.registry.ssl.certificate.location"),
    ("broker", "schema.registry.ssl.key.location"),
}
USED = [setting for setting in SETTINGS if not setting.no_effect]
SHARED = [setting for setting in USED if (setting.scope, setting.name) in DEFINED]
OF_BROKERS = [setting for setting in SHARED if setting.scope == "broker"]
OF_TOPICS = [setting for setting in SHARED if setting.scope == "topic" and ("topic", setting.name) in KAFKA]
UNUSED = [setting for setting in SETTINGS if setting.no_effect]


def _named(setting: Setting) -> str:
    return f"{setting.scope}-{setting.name}"


def _of_kafka(setting: Setting) -> Defined:
    """Return Kafka's definition, that of 3.9 if it has one; its share groups and archives were not ready."""
    newest = DEFINED[setting.scope, setting.name]
    is_newer = setting.name.startswith(("group.share.", "remote.log."))
    return newest if is_newer else KAFKA.get((setting.scope, setting.name), newest)


def test_a_setting_is_as_kafka_defines_it() -> None:
    for setting in SHARED:
        kafka = _of_kafka(setting)
        assert setting.kind.type.name == kafka.type, _named(setting)
        assert setting.importance.name == kafka.importance, _named(setting)
        if setting.name in OTHER_DEFAULTS:
            assert setting.default == OTHER_DEFAULTS[setting.name], _named(setting)
        else:
            default = "null" if setting.default is None else render(setting.default)
            assert default == kafka.default.strip("[]").replace(", ", ","), _named(setting)


def test_dynamic_settings_are_dynamic_in_kafka() -> None:
    for setting in OF_BROKERS:
        kafka = _of_kafka(setting)
        assert setting.mode in (Mode.READ_ONLY, kafka.mode), _named(setting)


def test_a_topic_setting_has_kafkas_synonyms() -> None:
    for setting in OF_TOPICS:
        factors = {"1": 1, "60000": 60_000, "3600000": 3_600_000}
        defined = [item.rsplit(":", 1) for item in KAFKA["topic", setting.name].synonyms.split() if item != "-"]
        assert [(s.name, s.factor) for s in setting.synonyms] == [
            (name, factors[factor]) for name, factor in defined
        ], _named(setting)


def test_every_setting_of_a_topic_is_there() -> None:
    assert not {name for scope, name in DEFINED if scope == "topic"} - set(TOPIC)


def test_settings_of_our_own_are_no_settings_of_kafkas() -> None:
    own = {(str(setting.scope), setting.name) for setting in SETTINGS} - set(DEFINED)
    assert not own - OWN, f"Kafka does not have {own - OWN}: enter them in OWN of {__file__}, with the reason"
    assert not OWN - own, f"{OWN - own} of OWN are settings of Kafka, or none"


def test_a_setting_with_an_effect_is_read_by_code() -> None:
    package = Path(pylogbroker.__file__).parent
    tables = set((package / "config").glob("*_settings.py"))
    code = "".join(path.read_text() for path in package.rglob("*.py") if path not in tables)
    synonyms = {synonym.name for setting in SETTINGS for synonym in setting.synonyms}
    of_logs = {field.name.replace("_", ".") for field in attrs.fields(LogConfig)}
    attributes = set(re.findall(r"\.(\w+)", code))
    unread = {
        setting.name
        for setting in USED
        if f'"{setting.name}"' not in code and setting.name.replace(".", "_") not in attributes
    }
    unread -= (
        synonyms | of_logs | {"local.retention.ms", "local.retention.bytes"}
    )  # `TopicConfig.local` makes the names
    assert not unread, "code reads the attribute of a setting that has an effect"


def test_a_topics_own_default_is_the_brokers() -> None:
    assert BrokerConfig({"log.delete.policies": "size"}).topic({}).texts("delete.policies") == ("size",)


def test_every_setting_of_kafkas_broker_is_there() -> None:
    assert not {name for scope, name in DEFINED if scope == "broker"} - set(BROKER)


def test_the_list_of_settings_without_use_is_up_to_date() -> None:
    assert PACKAGED.read_text() == packaged_text()


def test_a_setting_without_use_is_as_kafka_defines_it() -> None:
    for setting in UNUSED:
        kafka: Defined = DEFINED[setting.scope, setting.name]
        assert setting.kind.type.name == kafka.type, _named(setting)
        default = "null" if setting.default is None else render(setting.default)
        assert default == kafka.default.strip("[]").replace(", ", ",").removeprefix("class "), _named(setting)
        assert setting.scope == "topic" or setting.mode == kafka.mode, _named(setting)
        assert setting.doc == f"Has no effect: {setting.no_effect}.", _named(setting)


def test_secrets_without_use_are_secrets() -> None:
    secrets = {setting.name for setting in UNUSED if setting.kind.type is ConfigType.PASSWORD}
    assert "password.encoder.secret" in secrets
    assert all(BROKER[name].sensitive for name in secrets)


def test_the_default_is_itself_accepted() -> None:
    for setting in SETTINGS:
        text = render(setting.default)
        assert text is None or setting.kind.parse(text) == setting.default, _named(setting)


def test_every_setting_has_documentation() -> None:
    for setting in SETTINGS:
        assert setting.doc.endswith("."), _named(setting)
        assert setting.kind.expected, _named(setting)


def test_the_brokers_defaults_for_topics_are_kafkas() -> None:
    for setting in OF_TOPICS:
        in_force = render(BrokerConfig({}).topic({})[setting.name])
        assert in_force == KAFKA["topic", setting.name].default.strip("[]"), _named(setting)
