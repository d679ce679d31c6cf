"""Incremental fetches of a follower for one partition, prepared as bytes, and their answers with records of it alone.

    request   as learned | session_epoch:4 | as learned | fields of the partition | as learned
    answer    as learned | high_watermark:8 last_stable_offset:8 log_start_offset:8 | as learned | size, records | tags

A follower asks so again and again while its leader appends to one partition. The form comes from a request that is
encoded as usual. An answer that has another form is decoded as usual. Fields and sizes are those of
`pylogbroker.broker.repeated.fetch_several`.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from struct import Struct
from typing import Any, Final
from uuid import UUID

import attrs

from pylogbroker.broker.repeated.fetch_several import answer_form, partition_of
from pylogbroker.broker.repeated.frames import NOT_KNOWN, FlexibleFrames, first_difference
from pylogbroker.rpc.client_protocol import PreparedRequest
from pylogbroker.wire import request_codec, response_codec
from pylogbroker.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)

FIRST_PREPARED: Final = 15
"""First version with the broker epoch in tagged fields, behind the partitions."""

_ENCODING: Final = FlexibleFrames()
_NO_TAGS: Final = 0
_offsets = Struct(">qqq")
_pack_int = Struct(">i").pack


@attrs.frozen(eq=False, repr=False)
class PreparedFetch:
    """Form of a session's requests that name one partition, and of usual answers."""

    _session_id: int
    _broker_epoch: int
    _version: int
    _topic_id: UUID
    _index: int
    _fields: Struct
    _before: bytes
    _between: bytes
    _behind: bytes
    _answer_before: bytes
    _answer_between: bytes
    _answer_behind: bytes

    @classmethod
    def learn(cls, request: FetchRequest, version: int) -> PreparedFetch:
        """Return the form of an incremental request that names one partition, and forgets none."""
        [topic] = request.topics
        [partition] = topic.partitions
        fields, tags = partition_of(version), _ENCODING.tags
        encode = request_codec(FetchRequest.api_key, version).encode
        other, without = copy(request), copy(request)
        other.session_epoch, without.topics = ~request.session_epoch, []
        body = encode(request)
        epoch_at = first_difference(body, encode(other))
        topics_at = epoch_at + 4
        behind = tags + encode(without)[topics_at + len(_ENCODING.no_elements) :]
        topics = body[topics_at : len(body) - len(behind) - fields.size]
        head, _, before, between = answer_form(version, _ENCODING, request.session_id)
        return cls(
            request.session_id, request.replica_state.replica_epoch, version, topic.topic_id, partition.partition,
            fields, body[:epoch_at], topics, behind,
            head.removeprefix(tags) + topics + _pack_int(partition.partition) + before, between, tags * 3,
        )  # fmt: skip

    def is_of(self, session_id: int, broker_epoch: int) -> bool:
        return session_id == self._session_id and broker_epoch == self._broker_epoch

    def request(
        self, session_epoch: int, partition: FetchPartition, follow_up: Callable[[FetchResponse], Any] | None = None
    ) -> PreparedRequest:
        """Return a request; see `PreparedRequest` for `follow_up`."""
        fields = self._fields.pack(
            partition.partition, partition.current_leader_epoch, partition.fetch_offset, partition.last_fetched_epoch,
            partition.log_start_offset, partition.partition_max_bytes, _NO_TAGS,
        )  # fmt: skip
        body = b"".join((self._before, _pack_int(session_epoch), self._between, fields, self._behind))
        return PreparedRequest(FetchRequest, self._version, body, self._decode, follow_up)

    def _decode(self, frame: memoryview, at: int) -> FetchResponse:
        """Return the response; raise WireError if it is invalid."""
        try:
            response = self._usual_response(frame, at)
        except NOT_KNOWN:
            response = None
        return response or response_codec(FetchResponse.api_key, self._version).decode_first(frame, at)

    def _usual_response(self, frame: memoryview, at: int) -> FetchResponse | None:
        """Return the response if it has records of the partition, and nothing unusual."""
        offsets_at = at + len(self._answer_before)
        between_at = offsets_at + _offsets.size
        size_at = between_at + len(self._answer_between)
        if frame[at:offsets_at] != self._answer_before or frame[between_at:size_at] != self._answer_between:
            return None
        size, records_at = _ENCODING.read_count(frame, size_at)
        end = records_at + size
        if frame[end:] != self._answer_behind:
            return None
        high_watermark, last_stable_offset, log_start_offset = _offsets.unpack_from(frame, offsets_at)
        answer = PartitionData(
            self._index,
            0,
            high_watermark,
            last_stable_offset,
            log_start_offset,
            aborted_transactions=None,
            records=frame[records_at:end],
        )
        topics = [FetchableTopicResponse(topic_id=self._topic_id, partitions=[answer])]
        return FetchResponse(session_id=self._session_id, responses=topics)
