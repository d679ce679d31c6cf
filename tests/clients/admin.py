"""The few things that tests of other clients need done for them, by kafka-python's admin client."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from kafka import TopicPartition
from kafka.admin import KafkaAdminClient, OffsetSpec
from kafka.errors import NotLeaderForPartitionError, UnknownTopicOrPartitionError

from tests.support.waiting import wait_until


@contextmanager
def admin_client(bootstrap: str) -> Iterator[KafkaAdminClient]:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        yield admin
    finally:
        admin.close()


def create_topic(bootstrap: str, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
    """Create a topic and wait until every partition has a leader that knows that it is."""
    wanted = {name: {"num_partitions": partitions, "replication_factor": 1, "configs": dict(configs or {})}}
    with admin_client(bootstrap) as admin:
        admin.create_topics(wanted, wait_for_metadata=True)
        wait_until(lambda: _have_leaders(admin, name, partitions))


def _have_leaders(admin: KafkaAdminClient, topic: str, partitions: int) -> bool:
    """Return whether the leaders answer for their partitions; they may learn of these later than other brokers."""
    try:
        admin.list_partition_offsets({TopicPartition(topic, number): OffsetSpec.LATEST for number in range(partitions)})
    except (NotLeaderForPartitionError, UnknownTopicOrPartitionError):
        return False
    return True


def eventually(look: Callable[[], object], wanted: object, timeout: float = 120) -> None:
    """Look until it is so: what one broker of a cluster has taken in, another may not know in the same instant."""
    wait_until(lambda: look() == wanted, timeout, lambda: f"{look()!r} and still not {wanted!r}")
