"""Appends of this broker to partitions that other brokers lead (Produce)."""

from __future__ import annotations

from pylogbroker.broker.share.persister import StatePeers
from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.metadata.image import TopicImage
from pylogbroker.rpc.errors import code_of
from pylogbroker.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

_ACKS_ALL = -1


async def append(
    peers: StatePeers, broker_id: int, topic: TopicImage, index: int, batch: bytes, timeout_ms: int
) -> None:
    """Append a batch at the leader of its partition; raise KafkaError."""
    data = TopicProduceData(topic.name, [PartitionProduceData(index, batch)], topic.id)
    response = await peers.send(broker_id, ProduceRequest(None, _ACKS_ALL, timeout_ms, [data]))
    answers = [partition for answer in response.responses for partition in answer.partition_responses]
    if len(answers) != 1:
        raise KafkaError("the leader's answer is not about the partition", ErrorCode.UNKNOWN_SERVER_ERROR)
    error = code_of(answers[0].error_code)
    if error:
        raise KafkaError(answers[0].error_message or error.meaning, error)
