"""afkak in a process of its own, with the reactor to itself, obeying commands (`tests.support.rpc_process`).

afkak sends version 0 of Produce, Fetch, ListOffsets and Metadata, version 1 of OffsetCommit and OffsetFetch, and
writes messages of format v0; it reads no headers and no timestamps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from afkak import (
    CODEC_GZIP,
    CODEC_NONE,
    CODEC_SNAPPY,
    OFFSET_EARLIEST,
    OFFSET_LATEST,
    Consumer,
    HashedPartitioner,
    KafkaClient,
    Producer,
    create_message_set,
)
from afkak.common import (
    BrokerResponseError,
    OffsetCommitRequest,
    OffsetFetchRequest,
    OffsetRequest,
    ProduceRequest,
    SendRequest,
)
from twisted.internet.defer import Deferred
from twisted.internet.stdio import StandardIO
from twisted.internet.task import deferLater, react
from twisted.protocols.basic import LineOnlyReceiver

from tests.clients.model import Rec, read_rows, to_row

Rows = list[str]
CODECS = {"none": CODEC_NONE, "gzip": CODEC_GZIP, "snappy": CODEC_SNAPPY}
#: a broker gives version 0 of Fetch no part of a message that is larger, so that afkak would ask for it for ever
BUFFER_SIZE = 10_000_000
ACKS = {"0": 0, "1": 1, "all": -1}


async def write(client: KafkaClient, topic: str, codec: str, acks: str, rows: str) -> Rows:
    """All records of a file of rows, one message set for each partition."""
    await with_leaders(client, topic)
    requests: dict[int, list[SendRequest]] = defaultdict(list)
    for record in read_rows(Path(rows)):
        requests[record.partition].append(SendRequest(topic, record.key, [record.value], None))
    payloads = [
        ProduceRequest(topic, partition, create_message_set(wanted, CODECS[codec]))
        for partition, wanted in requests.items()
    ]
    answers = await client.send_produce_request(payloads, acks=ACKS[acks])
    return [f"{answer.partition}\t{answer.offset}" for answer in answers]


async def send(client: KafkaClient, topic: str, codec: str, acks: str, keys: str) -> Rows:
    """A record for each key, by afkak's producer, which chooses the partitions."""
    await with_leaders(client, topic)
    producer = Producer(client, HashedPartitioner, req_acks=ACKS[acks], codec=CODECS[codec])
    for key in keys.split(","):
        await producer.send_messages(topic, key.encode(), [f"value of {key}".encode()])
    await producer.stop()
    return []


async def bounds(client: KafkaClient, topic: str, partition: str) -> Rows:
    """The first and the end offset."""
    await with_leaders(client, topic)
    found = [await _offset(client, topic, int(partition), time) for time in (OFFSET_EARLIEST, OFFSET_LATEST)]
    return ["\t".join(map(str, found))]


async def read(client: KafkaClient, topic: str, partition: str, offset: str, count: str) -> Rows:
    """`count` records from an offset on, by afkak's consumer."""
    await with_leaders(client, topic)
    found: list[Rec] = []
    enough: Deferred[None] = Deferred()

    def process(_: Consumer, messages: list[Any]) -> None:
        found.extend(
            Rec(each.message.value, each.message.key, partition=each.partition, offset=each.offset) for each in messages
        )
        if len(found) >= int(count) and not enough.called:
            enough.callback(None)

    options = {"fetch_max_wait_time": 50, "fetch_size_bytes": 1, "buffer_size": BUFFER_SIZE}
    consumer = Consumer(client, topic, int(partition), process, **options)
    consumer.start(int(offset)).addErrback(lambda failure: None if enough.called else enough.errback(failure))
    await enough
    consumer.stop()
    return [to_row(record) for record in found[: int(count)]]


async def commit(client: KafkaClient, group: str, topic: str, partition: str, offset: str, metadata: str) -> Rows:
    payload = OffsetCommitRequest(topic, int(partition), int(offset), -1, metadata.encode())
    await client.send_offset_commit_request(group, [payload])
    return []


async def committed(client: KafkaClient, group: str, topic: str, partition: str) -> Rows:
    (found,) = await client.send_offset_fetch_request(group, [OffsetFetchRequest(topic, int(partition))])
    return [f"{found.offset}\t{found.metadata.decode()}"]


COMMANDS: dict[str, Callable[..., Awaitable[Rows]]] = {
    "write": write, "send": send, "bounds": bounds, "read": read, "commit": commit, "committed": committed,
}  # fmt: skip


async def with_leaders(client: KafkaClient, topic: str) -> None:
    """Ask until the topic, which the first question may create, has a leader for each partition."""
    while True:
        await client.load_metadata_for_topics(topic)
        if client.metadata_error_for_topic(topic) == 0 and client.topic_fully_replicated(topic):
            return
        await deferLater(client.reactor, 0.02)


async def _offset(client: KafkaClient, topic: str, partition: int, time: int) -> int:
    (found,) = await client.send_offset_request([OffsetRequest(topic, partition, time, 1)])
    return int(found.offsets[0])


class Commands(LineOnlyReceiver):
    """One command at a time: name, bootstrap address, arguments."""

    delimiter = b"\n"

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor
        self.ended: Deferred[None] = Deferred()

    def lineReceived(self, line: bytes) -> None:
        Deferred.fromCoroutine(self._answer(*line.decode().split("\t")))

    async def _answer(self, command: str, bootstrap: str, *arguments: str) -> None:
        client = KafkaClient(bootstrap, reactor=self._reactor, timeout=60000)
        try:
            rows = await COMMANDS[command](client, *arguments)
        except Exception as error:
            code = error.errno if isinstance(error, BrokerResponseError) else -1
            self.sendLine("\t".join(["error", str(code), " ".join(repr(error).split())]).encode())
        else:
            for row in rows:
                self.sendLine(f"=\t{row}".encode())
            self.sendLine(b"ok")
        finally:
            await client.close()

    def connectionLost(self, reason: object = None) -> None:
        self.ended.callback(None)


def main(reactor: Any) -> Deferred[None]:
    commands = Commands(reactor)
    StandardIO(commands)
    return commands.ended


if __name__ == "__main__":
    react(main)
