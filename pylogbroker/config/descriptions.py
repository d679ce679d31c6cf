"""Settings with values and sources, for DescribeConfigs."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from pylogbroker.config import table
from pylogbroker.config.broker_config import BrokerConfig
from pylogbroker.config.setting import ConfigSource, Setting
from pylogbroker.config.topic_config import TopicConfig
from pylogbroker.config.value_kinds import ConfigType, Value, render

_BROKER_SOURCES = (
    ConfigSource.DYNAMIC_BROKER_CONFIG,
    ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
    ConfigSource.STATIC_BROKER_CONFIG,
)


@attrs.frozen
class SynonymValue:
    """Value of a setting, or of a synonym, in one layer."""

    name: str
    value: str | None
    source: ConfigSource


@attrs.frozen
class Description:
    """Setting for DescribeConfigs; sensitive values are None."""

    name: str
    value: str | None
    type: ConfigType
    source: ConfigSource
    read_only: bool
    sensitive: bool
    documentation: str
    synonyms: tuple[SynonymValue, ...]

    @classmethod
    def of(
        cls, setting: Setting, value: Value, source: ConfigSource, synonyms: tuple[SynonymValue, ...]
    ) -> Description:
        return cls(
            name=setting.name,
            value=_shown(setting, value),
            type=setting.kind.type,
            source=source,
            read_only=not setting.dynamic,
            sensitive=setting.sensitive,
            documentation=setting.doc,
            synonyms=synonyms,
        )


def describe_broker(config: BrokerConfig) -> list[Description]:
    shown = [setting for setting in table.BROKER.values() if not setting.internal]
    for name in {name for source in _BROKER_SOURCES for name in config.explicit(source)} - table.BROKER.keys():
        of_one_listener = table.broker_setting(name)
        shown += [] if of_one_listener is None else [of_one_listener]
    return [_describe_broker(config, setting) for setting in sorted(shown, key=lambda setting: setting.name)]


def describe_topic(config: BrokerConfig, topic: TopicConfig) -> list[Description]:
    shown = (name for name, setting in table.TOPIC.items() if not setting.internal)
    return [_describe_topic(config, topic, table.TOPIC[name]) for name in sorted(shown)]


def _describe_broker(config: BrokerConfig, setting: Setting) -> Description:
    names = (setting.name, *(synonym.name for synonym in setting.synonyms))
    synonyms = tuple(_broker_values(config, names))
    for source in _BROKER_SOURCES:
        if setting.name in config.explicit(source):
            value = setting.kind.parse(config.explicit(source)[setting.name])
            return Description.of(setting, value, source, synonyms)
    return Description.of(setting, setting.default, ConfigSource.DEFAULT_CONFIG, synonyms)


def _describe_topic(config: BrokerConfig, topic: TopicConfig, setting: Setting) -> Description:
    synonyms = tuple(_broker_values(config, tuple(synonym.name for synonym in setting.synonyms)))
    if setting.name in topic.overrides:
        own = SynonymValue(setting.name, _shown(setting, topic[setting.name]), ConfigSource.DYNAMIC_TOPIC_CONFIG)
        synonyms = (own, *synonyms)
    source = synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG
    return Description.of(setting, topic[setting.name], source, synonyms)


def _broker_values(config: BrokerConfig, names: tuple[str, ...]) -> Iterator[SynonymValue]:
    for source in _BROKER_SOURCES:
        layer = config.explicit(source)
        for name in names:
            setting = table.broker_setting(name)
            if setting is not None and name in layer:
                yield SynonymValue(name, _shown(setting, setting.kind.parse(layer[name])), source)
    for name in names:
        setting = table.broker_setting(name)
        if setting is not None and setting.default is not None:
            yield SynonymValue(name, _shown(setting, setting.default), ConfigSource.DEFAULT_CONFIG)


def _shown(setting: Setting, value: Value) -> str | None:
    return None if setting.sensitive else render(value)
