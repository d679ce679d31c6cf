"""Members of share groups that speak to a node, each on a connection of its own."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import iscoroutine
from typing import Any
from uuid import UUID

import attrs
from twisted.internet.defer import Deferred, maybeDeferred

from pylogbroker.broker.requests.context import Caller, RequestContext
from pylogbroker.broker.requests.declared_services import select_services
from pylogbroker.records import Buffer, entries
from pylogbroker.wire import SUPPORTED, Request, codec
from pylogbroker.wire.messages.share_acknowledge import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from pylogbroker.wire.messages.share_fetch import (
    AcknowledgementBatch,
    ForgottenShareTopic,
    ShareFetchPartition,
    ShareFetchRequest,
    ShareFetchResponse,
    ShareFetchTopic,
)
from tests.broker.nodes import Node
from tests.broker.trees import now

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
Batch = tuple[int, int, int]
"""First and last offset, and one type for all."""


@attrs.define(eq=False)
class ShareMember:
    """A member of a group; `epoch` is that of its next request."""

    node: Node
    name: str = "m"
    group: str = "g"
    principal: str = "User:ANONYMOUS"
    caller: Caller = attrs.field(factory=Caller)
    epoch: int = 0
    version: int = 2
    records_max: int = 500
    min_bytes: int = 1
    bytes_max: int = 1 << 20
    batch_size: int = 500
    is_exact: bool = False
    is_renewal: bool = False

    def send(self, request: Request) -> Deferred[Any]:
        """Send a request through the wire's codecs."""
        request_type, response_type = SUPPORTED[request.api_key]
        sent = codec(request_type, self.version).decode(codec(request_type, self.version).encode(request))
        api = next(api for api in self.node.broker.apis if api.key == request.api_key)
        access = None
        if self.node.broker.authorizer is not None:
            access = self.node.broker.authorizer.access(self.principal, "")
        context = RequestContext(
            self.version, caller=self.caller, local_host="here", principal=self.principal, access=access
        )

        def begin() -> Any:
            answer = api.handle(select_services(self.node.broker, api.services), context, sent)
            return self.node.broker.runtime.slices.attempt(answer) if iscoroutine(answer) else answer

        def receive(answer: Any) -> Any:
            if not isinstance(answer, response_type):
                return answer
            chunks = codec(response_type, self.version).chunks(answer)
            data = b"".join(chunk if isinstance(chunk, Buffer) else chunk.read() for chunk in chunks)
            return codec(response_type, self.version).decode(data)

        return maybeDeferred(begin).addBoth(receive)

    def fetch_later(
        self,
        *partitions: tuple[UUID, int],
        acknowledge: dict[tuple[UUID, int], Sequence[Batch]] | None = None,
        forget: Sequence[tuple[UUID, int]] = (),
        wait_ms: int = 0,
    ) -> Deferred[ShareFetchResponse]:
        """Send a fetch; the session's epoch goes on if the answer has no error."""
        acknowledge = acknowledge or {}
        topics = [
            ShareFetchTopic(topic, [ShareFetchPartition(index, _batches(acknowledge.get((topic, index), ())))])
            for topic, index in dict.fromkeys((*partitions, *acknowledge))
        ]
        request = ShareFetchRequest(
            self.group,
            self.name,
            self.epoch,
            wait_ms,
            self.min_bytes,
            self.bytes_max,
            self.records_max,
            self.batch_size,
            int(self.is_exact),
            self.is_renewal,
            topics,
            [ForgottenShareTopic(topic, [index]) for topic, index in forget],
        )
        if self.version < 2:
            request.is_renew_ack, request.share_acquire_mode = False, 0
        if self.epoch >= 0:
            self.epoch += 1
        return self.send(request)

    def fetch(self, *partitions: tuple[UUID, int], **more: Any) -> ShareFetchResponse:
        answer: ShareFetchResponse = now(self.fetch_later(*partitions, **more))
        return answer

    def acknowledge_later(self, partition: tuple[UUID, int], *batches: Batch) -> Deferred[ShareAcknowledgeResponse]:
        topics = [AcknowledgeTopic(partition[0], [AcknowledgePartition(partition[1], _batches(batches))])]
        request = ShareAcknowledgeRequest(self.group, self.name, self.epoch, self.is_renewal, topics)
        if self.version < 2:
            request.is_renew_ack = False
        if self.epoch >= 0:
            self.epoch += 1
        return self.send(request)

    def acknowledge(self, partition: tuple[UUID, int], *batches: Batch) -> int:
        """Return the error code of the request, or of the partition."""
        response: ShareAcknowledgeResponse = now(self.acknowledge_later(partition, *batches))
        if response.error_code:
            return response.error_code
        [topic] = response.responses
        return topic.partitions[0].error_code

    def leave(self) -> ShareAcknowledgeResponse:
        """End the session."""
        self.epoch = -1
        request = ShareAcknowledgeRequest(self.group, self.name, self.epoch, False, [])
        answer: ShareAcknowledgeResponse = now(self.send(request))
        self.epoch = 0
        return answer


def _batches(batches: Sequence[Batch]) -> list[AcknowledgementBatch]:
    return [AcknowledgementBatch(first, last, [kind]) for first, last, kind in batches]


def acquired(response: ShareFetchResponse) -> dict[int, list[tuple[int, int, int]]]:
    """Return what was acquired, by partition: first and last offset, delivery count. Fail for an error."""
    assert response.error_code == 0, response
    ranges = {}
    for topic in response.responses:
        for partition in topic.partitions:
            assert partition.error_code == 0, partition
            if partition.acquired_records:
                ranges[partition.partition_index] = [
                    (each.first_offset, each.last_offset, each.delivery_count) for each in partition.acquired_records
                ]
    return ranges


def offsets(response: ShareFetchResponse) -> list[int]:
    """Return the offsets of all acquired records, after a look for their values."""
    result = []
    for topic in response.responses:
        for partition in topic.partitions:
            there = {record.offset for entry in entries(partition.records) for record in entry.records()}
            for each in partition.acquired_records:
                acquired_offsets = range(each.first_offset, each.last_offset + 1)
                assert there.issuperset(acquired_offsets), (there, each)
                result += acquired_offsets
    return result
