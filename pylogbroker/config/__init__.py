"""Settings: the table of all settings, and the values in force.

    config = BrokerConfig(properties.read("etc/server.properties"))
    config.num_partitions                              # an int, also for type checkers
    config.integer("num.partitions")                   # by a name that is not known before
    topic = config.topic({"retention.ms": "60000"})    # a topic with overrides
    topic.segment_bytes                                # its own value, or the broker's log.segment.bytes

A setting's validation, description and default come from its row in `table`.

Names are imported on first use: clients need few of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pylogbroker.lazy_names import lazy_names

if TYPE_CHECKING:
    from pylogbroker.config.broker_config import BrokerConfig, Reloaded, unknown_names
    from pylogbroker.config.changes import ConfigOperation, SettingChange, apply
    from pylogbroker.config.cluster_settings import RACK_AWARE_SELECTOR
    from pylogbroker.config.descriptions import Description, SynonymValue, describe_broker, describe_topic
    from pylogbroker.config.given import broker_texts, texts_of
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
    "broker_texts",
    "describe_broker",
    "describe_topic",
    "notes_without_effect",
    "parse_overrides",
    "texts_of",
    "unknown_names",
]

_MODULES: Final = {
    "BROKER": ".table",
    "NEW_PARTITIONS_MAX": ".value_kinds",
    "RACK_AWARE_SELECTOR": ".cluster_settings",
    "SETTINGS": ".table",
    "SIMPLE": ".listeners",
    "TOPIC": ".table",
    "BrokerConfig": ".broker_config",
    "ConfigOperation": ".changes",
    "ConfigSource": ".setting",
    "ConfigType": ".value_kinds",
    "Description": ".descriptions",
    "Endpoint": ".listeners",
    "Importance": ".setting",
    "Listener": ".listeners",
    "Mode": ".setting",
    "Reloaded": ".broker_config",
    "Scope": ".setting",
    "Setting": ".setting",
    "SettingChange": ".changes",
    "Synonym": ".setting",
    "SynonymValue": ".descriptions",
    "TopicConfig": ".topic_config",
    "Value": ".value_kinds",
    "ValueKind": ".value_kinds",
    "Values": ".values",
    "apply": ".changes",
    "broker_setting": ".table",
    "broker_texts": ".given",
    "describe_broker": ".descriptions",
    "describe_topic": ".descriptions",
    "notes_without_effect": ".table",
    "parse_overrides": ".topic_config",
    "texts_of": ".given",
    "unknown_names": ".broker_config",
}

__getattr__, __dir__ = lazy_names(__name__, _MODULES)
