"""Requests of the workloads, as complete frames, and the parsing of their responses.

All brokers get the same versions of requests: the newest that identify topics by name.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from pylogbroker.records import Record, build
from pylogbroker.wire import decode_response_header, request_codec, response_codec
from pylogbroker.wire.messages import (
    alter_client_quotas,
    create_acls,
    create_topics,
    delete_topics,
    fetch,
    list_offsets,
    metadata,
    produce,
)
from pylogbroker.wire.messages.describe_client_quotas import EntityData

CLIENT_ID = "benchmark"
TIMEOUT_MS = 30_000
VERSIONS: Mapping[int, int] = {
    alter_client_quotas.AlterClientQuotasRequest.api_key: 1,
    create_acls.CreateAclsRequest.api_key: 3,
    create_topics.CreateTopicsRequest.api_key: 5,
    delete_topics.DeleteTopicsRequest.api_key: 5,
    fetch.FetchRequest.api_key: 12,
    list_offsets.ListOffsetsRequest.api_key: 6,
    metadata.MetadataRequest.api_key: 9,
    produce.ProduceRequest.api_key: 9,
}
LATEST = -1


@cache
def batch(records: int, value_bytes: int) -> bytes:
    """Return a batch of `records` records with values of `value_bytes`; its time is that of the first call."""
    now_ms = int(time.time() * 1000)
    value = bytes(range(256)) * (value_bytes // 256 + 1)
    return build(Record(offset=n, timestamp=now_ms, key=None, value=value[:value_bytes]) for n in range(records))


def frame(request: Any) -> bytes:
    codec = request_codec(request.api_key, VERSIONS[request.api_key])
    chunks: list[Any] = codec.frame(0, CLIENT_ID, request)
    return b"".join(chunks)


def answer(api_key: int, body: bytes) -> Any:
    view = memoryview(body)
    _, position = decode_response_header(view, api_key, VERSIONS[api_key])
    return response_codec(api_key, VERSIONS[api_key]).decode(view, position)


def produce_request(topic: str, batches: Iterable[tuple[int, bytes]], acks: int = 1) -> bytes:
    """Return a request that appends a batch to each partition."""
    data = [produce.PartitionProduceData(partition, records) for partition, records in batches]
    return frame(produce.ProduceRequest(None, acks, TIMEOUT_MS, [produce.TopicProduceData(topic, data)]))


def produce_quota_request(bytes_per_second: int | None) -> bytes:
    """Return a request that sets the quota of this client id, or removes it."""
    op = alter_client_quotas.OpData("producer_byte_rate", bytes_per_second or 0, bytes_per_second is None)
    entity = [EntityData("client-id", CLIENT_ID)]
    return frame(alter_client_quotas.AlterClientQuotasRequest([alter_client_quotas.QuotaAlteration(entity, [op])]))


def altered(body: bytes) -> list[int]:
    """Return the error code for each entity."""
    return [each.error_code for each in answer(alter_client_quotas.AlterClientQuotasRequest.api_key, body).entries]


def create_acls_request(acls: Sequence[create_acls.AclCreation]) -> bytes:
    return frame(create_acls.CreateAclsRequest(list(acls)))


def acls_created(body: bytes) -> list[int]:
    """Return the error code for each ACL."""
    return [each.error_code for each in answer(create_acls.CreateAclsRequest.api_key, body).results]


def produced(body: bytes) -> list[tuple[int, int]]:
    """Return error code and base offset for each partition."""
    topics = answer(produce.ProduceRequest.api_key, body).responses
    return [(each.error_code, each.base_offset) for topic in topics for each in topic.partition_responses]


def fetch_request(topic: str, positions: Iterable[tuple[int, int]], partition_bytes: int) -> bytes:
    """Return a request for records of each partition from its offset on, without a fetch session."""
    partitions = [
        fetch.FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=partition_bytes)
        for partition, offset in positions
    ]
    topics = [fetch.FetchTopic(topic=topic, partitions=partitions)]
    return frame(fetch.FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=50 << 20, topics=topics))


def fetched(body: bytes) -> list[tuple[int, bytes]]:
    """Return error code and records for each partition."""
    topics = answer(fetch.FetchRequest.api_key, body).responses
    return [(each.error_code, bytes(each.records or b"")) for topic in topics for each in topic.partitions]


def create_topic_request(
    topic: str, partitions: int, settings: Mapping[str, str], replicas: Sequence[int] = (), replication_factor: int = 1
) -> bytes:
    """Return a request that creates a topic; with `replicas`, they are those of each partition."""
    configs = [create_topics.CreatableTopicConfig(name, value) for name, value in settings.items()]
    assigned = [create_topics.CreatableReplicaAssignment(number, list(replicas)) for number in range(partitions)]
    creatable = create_topics.CreatableTopic(topic, partitions, replication_factor, [], configs)
    if replicas:
        creatable = create_topics.CreatableTopic(topic, -1, -1, assigned, configs)
    return frame(create_topics.CreateTopicsRequest([creatable], TIMEOUT_MS))


def created(body: bytes) -> list[int]:
    """Return the error code of each topic."""
    return [topic.error_code for topic in answer(create_topics.CreateTopicsRequest.api_key, body).topics]


def delete_topic_request(topic: str) -> bytes:
    """Return a request that deletes a topic."""
    return frame(delete_topics.DeleteTopicsRequest(topic_names=[topic], timeout_ms=TIMEOUT_MS))


def deleted(body: bytes) -> list[int]:
    """Return the error code of each topic."""
    return [each.error_code for each in answer(delete_topics.DeleteTopicsRequest.api_key, body).responses]


def end_offsets_request(topic: str, partitions: int) -> bytes:
    """Return a request for the end offset of each partition."""
    asked = [list_offsets.ListOffsetsPartition(partition_index=n, timestamp=LATEST) for n in range(partitions)]
    return frame(list_offsets.ListOffsetsRequest(topics=[list_offsets.ListOffsetsTopic(topic, asked)]))


def end_offsets(body: bytes) -> list[int]:
    """Return the end offset of each partition, -1 without a leader."""
    topics = answer(list_offsets.ListOffsetsRequest.api_key, body).topics
    return [each.offset for topic in topics for each in topic.partitions]


def metadata_request(topics: Iterable[str]) -> bytes:
    """Return a request for the metadata of topics, and for the brokers."""
    return frame(metadata.MetadataRequest([metadata.MetadataRequestTopic(name=topic) for topic in topics], False))


def broker_addresses(body: bytes) -> list[tuple[str, int]]:
    """Return host and port of each broker, the controller's first."""
    found = answer(metadata.MetadataRequest.api_key, body)
    brokers = sorted(found.brokers, key=lambda each: each.node_id != found.controller_id)
    return [(each.host, each.port) for each in brokers]


def leader_address(body: bytes, partition: int) -> tuple[str, int] | None:
    """Return host and port of the leader of a partition of the only topic; None without one."""
    found = answer(metadata.MetadataRequest.api_key, body)
    brokers = {each.node_id: (each.host, each.port) for each in found.brokers}
    leads = {each.partition_index: each.leader_id for topic in found.topics for each in topic.partitions}
    return brokers.get(leads.get(partition, -1))


def leaders(body: bytes) -> list[tuple[int, list[int]]]:
    """Return leader (-1: none) and in-sync replicas of each partition; empty while the topic is unknown."""
    topics = answer(metadata.MetadataRequest.api_key, body).topics
    return [(each.leader_id, each.isr_nodes) for topic in topics for each in topic.partitions]
