"""Paths of the coordination tree; most are Kafka's.

/cluster/id                                     cluster id
/controller                                     broker that is the controller (ephemeral)
/controller_epoch                               its epoch; the node's version fences controllers
/feature                                        finalized features of the cluster
/brokers/ids/<id>                               live broker (ephemeral)
/brokers/directories/<id>                       ids of the broker's log directories (not Kafka's)
/brokers/seqid                                  its version counts the broker ids assigned
/brokers/topics/<topic>                         a topic's id and its partitions' replicas
/brokers/topics/<topic>/partitions/<n>/state    a partition's leader, epoch and in-sync replicas
/config/topics/<topic>                          settings of a topic
/config/brokers/<id> , /config/brokers/<default>    dynamic settings of one broker, of all brokers
/config/groups/<group>                          settings of a consumer group (not Kafka's)
/config/users/<user>                            credentials and quotas of a user
/config/users-secret                            makes challenges for users that do not exist (not Kafka's)
/config/changes/config_change_<seq>             settings that changed
/admin/delete_topics/<topic>                    topic under deletion
/admin/preferred_replica_election               preferred elections wanted by an old tool
/admin/reassign_partitions                      reassignments wanted by an old tool
/isr_change_notification/isr_change_<seq>       partitions whose leader changed the ISR (below 2.7)
/log_dir_event_notification/log_dir_event_<seq> broker with a failed log directory
/latest_producer_id_block                       the block of producer ids assigned last
/migration/kafka07/<topic>                      partitions of an imported topic in Kafka 0.7 (not Kafka's)
/consumers/<group>/ids/<consumer>               live consumer and its subscription (ephemeral)
/consumers/<group>/owners/<topic>/<n>           stream that reads a partition (ephemeral)
/consumers/<group>/offsets/<topic>/<n>          committed offset of a group

Only consumers use /consumers. Brokers of Apache Kafka in the same cluster use the other nodes of PERSISTENT.
"""

from __future__ import annotations

from pylogbroker.metadata.entity_names import sanitized

CLUSTER_ID = "/cluster/id"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
FEATURES = "/feature"
BROKER_IDS = "/brokers/ids"
BROKER_DIRECTORIES = "/brokers/directories"
BROKER_SEQUENCE = "/brokers/seqid"
TOPICS = "/brokers/topics"
_CONFIG_TOPICS = "/config/topics"
CONFIG_USERS = "/config/users"
USERS_SECRET = "/config/users-secret"
CONFIG_BROKERS = "/config/brokers"
CONFIG_GROUPS = "/config/groups"
CONFIG_CHANGES = "/config/changes"
CONFIG_CHANGE_PREFIX = "/config/changes/config_change_"
DELETE_TOPICS = "/admin/delete_topics"
PREFERRED_ELECTION = "/admin/preferred_replica_election"
REASSIGN_PARTITIONS = "/admin/reassign_partitions"
ISR_CHANGES = "/isr_change_notification"
LOG_DIR_EVENTS = "/log_dir_event_notification"
LOG_DIR_EVENT_PREFIX = f"{LOG_DIR_EVENTS}/log_dir_event_"
PRODUCER_ID_BLOCK = "/latest_producer_id_block"
CONSUMERS = "/consumers"
MIGRATION = "/migration"
MIGRATION_KAFKA07 = "/migration/kafka07"

DEFAULT_BROKER = "<default>"  # all brokers, in place of a broker id

PERSISTENT = (
    CONSUMERS,
    "/brokers",
    BROKER_IDS,
    TOPICS,
    "/config",
    CONFIG_CHANGES,
    "/admin",
    DELETE_TOPICS,
    BROKER_SEQUENCE,
    "/isr_change_notification",
    PRODUCER_ID_BLOCK,
    "/log_dir_event_notification",
    _CONFIG_TOPICS,
    "/config/clients",
    CONFIG_USERS,
    CONFIG_BROKERS,
    "/config/ips",
    "/cluster",
    BROKER_DIRECTORIES,
    CONFIG_GROUPS,
)  # in Kafka's order, parents first; with null data


def broker(broker_id: int) -> str:
    return f"{BROKER_IDS}/{broker_id}"


def broker_directories(broker_id: int) -> str:
    return f"{BROKER_DIRECTORIES}/{broker_id}"


def topic(name: str) -> str:
    return f"{TOPICS}/{name}"


def partitions(name: str) -> str:
    return f"{TOPICS}/{name}/partitions"


def partition(name: str, number: int) -> str:
    return f"{TOPICS}/{name}/partitions/{number}"


def partition_state(name: str, number: int) -> str:
    return f"{TOPICS}/{name}/partitions/{number}/state"


def configs(kind: str) -> str:
    return f"/config/{kind}"


def config(kind: str, name: str) -> str:
    return f"/config/{kind}/{name}"


def topic_config(name: str) -> str:
    return f"{_CONFIG_TOPICS}/{name}"


def user_config(name: str) -> str:
    return f"{CONFIG_USERS}/{sanitized(name)}"


def deleted_topic(name: str) -> str:
    return f"{DELETE_TOPICS}/{name}"


def consumers(group: str) -> str:
    return f"{CONSUMERS}/{group}/ids"


def consumer(group: str, consumer_id: str) -> str:
    return f"{CONSUMERS}/{group}/ids/{consumer_id}"


def owner(group: str, topic_name: str, number: int) -> str:
    return f"{CONSUMERS}/{group}/owners/{topic_name}/{number}"


def kafka07_topic(name: str) -> str:
    return f"{MIGRATION_KAFKA07}/{name}"


def isr_change(name: str) -> str:
    return f"{ISR_CHANGES}/{name}"


def log_dir_event(name: str) -> str:
    return f"{LOG_DIR_EVENTS}/{name}"


def committed_offset(group: str, topic_name: str, number: int) -> str:
    return f"{CONSUMERS}/{group}/offsets/{topic_name}/{number}"
