"""Settings: the table of all settings, and the values in force.

    config = BrokerConfig(properties.read("etc/server.properties"))
    config.integer("num.partitions")                   # typed access by Kafka's names
    topic = config.topic({"retention.ms": "60000"})    # a topic with overrides
    topic.integer("segment.bytes")                     # its own value, or the broker's log.segment.bytes

A setting's validation, description and default come from its row in `table`.
"""

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
