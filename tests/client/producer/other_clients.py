"""Other clients, that read what was written."""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.clients.adapters.confluent import Confluent, consumer, messages
from tests.clients.model import Rec, in_log_order
from tests.support.brokers import Broker


def create(broker: Broker, topic: str, partitions: int = 1, **settings: str) -> None:
    """Make a topic; settings with underscores for dots."""
    config = {name.replace("_", "."): value for name, value in settings.items()}
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1, config=config)])[topic].result(120)


def read(broker: Broker, topic: str, partitions: Sequence[int] = (0,)) -> list[Rec]:
    """All records that are committed, or of no transaction, partition by partition."""
    return in_log_order(Confluent().read(broker.bootstrap, topic, partitions))


def values(broker: Broker, topic: str, partition: int = 0) -> list[bytes | None]:
    """The values of one partition."""
    return [record.value for record in read(broker, topic, (partition,))]


def committed_values(broker: Broker, topic: str, until: bytes, isolation: str = "read_committed") -> list[bytes | None]:
    """Return the committed records of partition 0, up to this value."""
    found: list[bytes | None] = []
    with consumer(broker.bootstrap, **{"isolation.level": isolation}) as reader:
        reader.assign([TopicPartition(topic, 0, 0)])
        for message in messages(reader):
            assert message.error() is None
            found.append(message.value())
            if message.value() == until:
                return found
    raise TimeoutError(f"{until!r} was not read; but {found}")
