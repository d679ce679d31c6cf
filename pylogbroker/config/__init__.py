"""Settings: the table of all settings, and the values in force.

    config = BrokerConfig(properties.read("etc/server.properties"))
    config.integer("num.partitions")                   # typed access by Kafka's names
    topic = config.topic({"retention.ms": "60000"})    # a topic with overrides
    topic.integer("segment.bytes")                     # its own value, or the broker's log.segment.bytes

A setting's validation, description and default come from its row in `table`.

Names are imported on first use: clients need few of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pylogbroker.config.broker_config import BrokerConfig, Reloaded, check_names
    from pylogbroker.config.changes import ConfigOperation, SettingChange, apply
    from pylogbroker.config.cluster_settings import RACK_AWARE_SELECTOR
    from pylogbroker.config.descriptions import Description, SynonymValue, describe_broker, describe_topic
    from pylogbroker.config.listeners import SIMPLE, Endpoint, Listener
    from pylogbroker.config.setting import ConfigSource, Importance, Mode, Scope, Setting, Synonym
    from pylogbroker.config.table import BROKER, SETTINGS, TOPIC, broker_setting, notes_without_effect
    from pylogbroker.config.topic_config import TopicConfig, parse_overrides
    from pylogbroker.config.value_kinds import NEW_PARTITIONS_MAX, ConfigType, Value, ValueKind
    from pylogbroker.config.values import Values

__all__ = [
    "BROKER",
    "NEW_PARTITIONS_MAX",
    "RACK_AWARE_SELECTOR",
    "SETTINGS",
    "SIMPLE",
    "TOPIC",
    "BrokerConfig",
    "ConfigOperation",
    "ConfigSource",
    "ConfigType",
    "Description",
    "Endpoint",
    "Importance",
    "Listener",
    "Mode",
    "Reloaded",
    "Scope",
    "Setting",
    "SettingChange",
    "Synonym",
    "SynonymValue",
    "TopicConfig",
    "Value",
    "ValueKind",
    "Values",
    "apply",
    "broker_setting",
    "check_names",
    "describe_broker",
    "describe_topic",
    "notes_without_effect",
    "parse_overrides",
]

_MODULES: Final = {
    "BROKER": "pylogbroker.config.table",
    "NEW_PARTITIONS_MAX": "pylogbroker.config.value_kinds",
    "RACK_AWARE_SELECTOR": "pylogbroker.config.cluster_settings",
    "SETTINGS": "pylogbroker.config.table",
    "SIMPLE": "pylogbroker.config.listeners",
    "TOPIC": "pylogbroker.config.table",
    "BrokerConfig": "pylogbroker.config.broker_config",
    "ConfigOperation": "pylogbroker.config.changes",
    "ConfigSource": "pylogbroker.config.setting",
    "ConfigType": "pylogbroker.config.value_kinds",
    "Description": "pylogbroker.config.descriptions",
    "Endpoint": "pylogbroker.config.listeners",
    "Importance": "pylogbroker.config.setting",
    "Listener": "pylogbroker.config.listeners",
    "Mode": "pylogbroker.config.setting",
    "Reloaded": "pylogbroker.config.broker_config",
    "Scope": "pylogbroker.config.setting",
    "Setting": "pylogbroker.config.setting",
    "SettingChange": "pylogbroker.config.changes",
    "Synonym": "pylogbroker.config.setting",
    "SynonymValue": "pylogbroker.config.descriptions",
    "TopicConfig": "pylogbroker.config.topic_config",
    "Value": "pylogbroker.config.value_kinds",
    "ValueKind": "pylogbroker.config.value_kinds",
    "Values": "pylogbroker.config.values",
    "apply": "pylogbroker.config.changes",
    "broker_setting": "pylogbroker.config.table",
    "check_names": "pylogbroker.config.broker_config",
    "describe_broker": "pylogbroker.config.descriptions",
    "describe_topic": "pylogbroker.config.descriptions",
    "notes_without_effect": "pylogbroker.config.table",
    "parse_overrides": "pylogbroker.config.topic_config",
}


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(module), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
