"""Settings as DescribeConfigs and a terminal show them."""

from __future__ import annotations

import attrs

from pylogbroker.config import (
    SETTINGS,
    BrokerConfig,
    ConfigSource,
    ConfigType,
    Description,
    SynonymValue,
    describe_broker,
    describe_topic,
)

S = ConfigSource


def _topic_row(config: BrokerConfig, name: str, overrides: dict[str, str]) -> Description:
    return next(row for row in describe_topic(config, config.topic(overrides)) if row.name == name)


def _broker_row(config: BrokerConfig, name: str) -> Description:
    return next(row for row in describe_broker(config) if row.name == name)


def test_a_default_is_the_tables() -> None:
    row = _topic_row(BrokerConfig({}), "segment.bytes", {})
    assert (row.value, row.source, row.type) == ("1073741824", S.DEFAULT_CONFIG, ConfigType.INT)
    assert row.synonyms == (SynonymValue("log.segment.bytes", "1073741824", S.DEFAULT_CONFIG),)
    assert not row.read_only
    assert not row.sensitive
    assert row.documentation


def test_synonyms_of_a_topic_value_list_the_overridden_values() -> None:
    config = BrokerConfig({"log.retention.minutes": "2"})
    config.set_dynamic(S.DYNAMIC_DEFAULT_BROKER_CONFIG, {"log.retention.ms": "5"})
    row = _topic_row(config, "retention.ms", {"retention.ms": "7"})
    assert (row.value, row.source) == ("7", S.DYNAMIC_TOPIC_CONFIG)
    assert row.synonyms == (
        SynonymValue("retention.ms", "7", S.DYNAMIC_TOPIC_CONFIG),
        SynonymValue("log.retention.ms", "5", S.DYNAMIC_DEFAULT_BROKER_CONFIG),
        SynonymValue("log.retention.minutes", "2", S.STATIC_BROKER_CONFIG),
        SynonymValue("log.retention.hours", "168", S.DEFAULT_CONFIG),
    )


def test_a_value_from_the_file_is_static() -> None:
    row = _topic_row(BrokerConfig({"log.retention.hours": "1"}), "retention.ms", {})
    assert (row.value, row.source) == ("3600000", S.STATIC_BROKER_CONFIG)


def test_a_setting_without_synonyms_has_none() -> None:
    row = _topic_row(BrokerConfig({}), "remote.storage.enable", {})
    assert (row.value, row.source, row.synonyms) == ("false", S.DEFAULT_CONFIG, ())


def test_a_brokers_rows() -> None:
    config = BrokerConfig({"log.retention.hours": "1", "num.partitions": "3"})
    assert _broker_row(config, "num.partitions").value == "3"
    assert _broker_row(config, "num.partitions").source is S.STATIC_BROKER_CONFIG
    assert _broker_row(config, "num.partitions").read_only
    assert not _broker_row(config, "log.retention.ms").read_only
    assert _broker_row(config, "log.retention.ms").value is None
    assert _broker_row(config, "log.retention.hours").value == "1"
    names = [row.name for row in describe_broker(config)]
    assert names == sorted(names)
    assert "log.initial.task.delay.ms" not in names


def test_a_sensitive_value_is_never_shown() -> None:
    config = BrokerConfig({"broker.rack": "secret"})
    setting = next(setting for setting in SETTINGS if setting.name == "broker.rack")
    hidden = attrs.evolve(setting, kind=attrs.evolve(setting.kind, type=ConfigType.PASSWORD))
    row = Description.of(hidden, hidden.kind.parse(config.text("broker.rack")), S.STATIC_BROKER_CONFIG, ())
    assert row.sensitive
    assert row.value is None
