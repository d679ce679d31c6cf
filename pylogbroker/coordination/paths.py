"""Where things are kept in the coordination tree: Kafka's own layout.

/cluster/id                                     the cluster's id
/brokers/ids/<id>                               a broker that lives (ephemeral)
/brokers/directories/<id>                       which log directory lies where (not of Kafka's layout)
/brokers/seqid                                  its version counts the broker numbers given out
/brokers/topics/<topic>                         a topic's id and its partitions' replicas
/brokers/topics/<topic>/partitions/<n>/state    a partition's leader, epoch and in-sync replicas
/config/topics/<topic>                          a topic's own settings
/config/brokers/<id> , /config/brokers/<default>    settings changed while brokers run
/admin/delete_topics/<topic>                    topics that are being deleted
/latest_producer_id_block                       the producer ids given out last
/migration/kafka07/<topic>                      where its partitions were in Kafka 0.7 (not of Kafka's layout)
/consumers/<group>/ids/<consumer>               a living consumer and what it reads (ephemeral)
/consumers/<group>/owners/<topic>/<n>           whose stream reads a partition (ephemeral)
/consumers/<group>/offsets/<topic>/<n>          how far a group has read

What is below /consumers is the consumers' own; brokers have nothing to do with it.
"""

from __future__ import annotations

CLUSTER_ID = "/cluster/id"
BROKER_IDS = "/brokers/ids"
BROKER_DIRECTORIES = "/brokers/directories"
BROKER_SEQUENCE = "/brokers/seqid"
TOPICS = "/brokers/topics"
CONFIG_TOPICS = "/config/topics"
CONFIG_BROKERS = "/config/brokers"
DELETE_TOPICS = "/admin/delete_topics"
PRODUCER_ID_BLOCK = "/latest_producer_id_block"
CONSUMERS = "/consumers"
MIGRATION = "/migration"
MIGRATION_KAFKA07 = "/migration/kafka07"

DEFAULT_BROKER = "<default>"  # the settings of all brokers, in the place of a broker's number

PERSISTENT = (
    "/cluster",
    "/brokers",
    BROKER_IDS,
    BROKER_SEQUENCE,
    BROKER_DIRECTORIES,
    TOPICS,
    "/config",
    CONFIG_TOPICS,
    CONFIG_BROKERS,
    "/admin",
    DELETE_TOPICS,
    PRODUCER_ID_BLOCK,
)  # nodes that are always there, parents first


def broker(broker_id: int) -> str:
    """A living broker."""
    return f"{BROKER_IDS}/{broker_id}"


def broker_directories(broker_id: int) -> str:
    """The log directories that a broker has used."""
    return f"{BROKER_DIRECTORIES}/{broker_id}"


def topic(name: str) -> str:
    """A topic."""
    return f"{TOPICS}/{name}"


def partitions(name: str) -> str:
    """The parent of a topic's partitions."""
    return f"{TOPICS}/{name}/partitions"


def partition(name: str, number: int) -> str:
    """A partition."""
    return f"{TOPICS}/{name}/partitions/{number}"


def partition_state(name: str, number: int) -> str:
    """A partition's leader and in-sync replicas."""
    return f"{TOPICS}/{name}/partitions/{number}/state"


def topic_config(name: str) -> str:
    """A topic's own settings."""
    return f"{CONFIG_TOPICS}/{name}"


def broker_config(broker_id: int | None) -> str:
    """A broker's settings, or those of all brokers for None."""
    return f"{CONFIG_BROKERS}/{DEFAULT_BROKER if broker_id is None else broker_id}"


def deleted_topic(name: str) -> str:
    """The mark of a topic that is being deleted."""
    return f"{DELETE_TOPICS}/{name}"


def consumers(group: str) -> str:
    """The parent of a group's living consumers."""
    return f"{CONSUMERS}/{group}/ids"


def consumer(group: str, consumer_id: str) -> str:
    """A living consumer of a group."""
    return f"{CONSUMERS}/{group}/ids/{consumer_id}"


def owner(group: str, topic_name: str, number: int) -> str:
    """Which stream of a group reads a partition."""
    return f"{CONSUMERS}/{group}/owners/{topic_name}/{number}"


def kafka07_topic(name: str) -> str:
    """Where the partitions of an imported topic were in Kafka 0.7."""
    return f"{MIGRATION_KAFKA07}/{name}"


def committed_offset(group: str, topic_name: str, number: int) -> str:
    """How far a group has read a partition."""
    return f"{CONSUMERS}/{group}/offsets/{topic_name}/{number}"
