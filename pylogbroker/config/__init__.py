"""Settings: one table of them all, and the values in force.

    config = BrokerConfig(properties.read("etc/server.properties"))
    config.integer("num.partitions")                   # typed access by Kafka's names
    topic = config.topic({"retention.ms": "60000"})    # what holds for a topic with settings of its own
    topic.integer("segment.bytes")                     # its own, or else the broker's log.segment.bytes

Every setting is a row of `table`: its name, kind of value, default, meaning, and how it can be changed. The same rows
validate, describe and give the defaults, so that they cannot disagree.
"""

from pylogbroker.config.alter import Change, Operation, apply
from pylogbroker.config.broker_config import BrokerConfig, Reloaded
from pylogbroker.config.describe import Description, SynonymValue, describe_broker, describe_topic
from pylogbroker.config.kinds import NEW_PARTITIONS_MAX, ConfigType, Kind, Value
from pylogbroker.config.listeners import SIMPLE, Endpoint, Listener
from pylogbroker.config.setting import Importance, Mode, Scope, Setting, Source, Synonym
from pylogbroker.config.table import BROKER, SETTINGS, TOPIC, broker_setting, notes_without_effect
from pylogbroker.config.topic_config import TopicConfig, parse_overrides
from pylogbroker.config.values import Values

__all__ = [
    "BROKER",
    "NEW_PARTITIONS_MAX",
    "SETTINGS",
    "SIMPLE",
    "TOPIC",
    "BrokerConfig",
    "Change",
    "ConfigType",
    "Description",
    "Endpoint",
    "Importance",
    "Kind",
    "Listener",
    "Mode",
    "Operation",
    "Reloaded",
    "Scope",
    "Setting",
    "Source",
    "Synonym",
    "SynonymValue",
    "TopicConfig",
    "Value",
    "Values",
    "apply",
    "broker_setting",
    "describe_broker",
    "describe_topic",
    "notes_without_effect",
    "parse_overrides",
]
