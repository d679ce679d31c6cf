"""Responses to fetch requests, made of what a reader has found."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import attrs

from pylogbroker.broker.fetch.follower_session import FollowerSession
from pylogbroker.broker.fetch.reader import FetchReader
from pylogbroker.broker.fetch.session import FetchSession, RequestedPartition, TopicKey
from pylogbroker.broker.services import HasFetches
from pylogbroker.wire import NO_ID
from pylogbroker.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData

FetchedPartition = tuple[RequestedPartition, PartitionData]


@attrs.define(eq=False, repr=False)
class FetchResponseBuilder:
    """Builds the response to one request; `begin` and `add` do so in parts."""

    _services: HasFetches
    _reader: FetchReader
    _session: FetchSession | None
    _incremental: bool

    def build(self, requested: Sequence[RequestedPartition]) -> FetchResponse:
        """Return the response with all partitions that were read."""
        throttled = self.throttled_response()
        if throttled is not None:
            return throttled
        response = self.begin()
        self.add(response, requested)
        return response

    def throttled_response(self) -> FetchResponse | None:
        """Return an empty answer to a consumer over its quota; else the records that are read count."""
        throttle_ms = self._reader.throttle_ms()
        if not throttle_ms:
            return None
        session_id = 0
        if self._session is not None:
            if self._incremental:
                session_id = self._session.id
            else:  # the client begins it again
                self._services.fetches.sessions.end(self._session)
        return FetchResponse(throttle_time_ms=throttle_ms, session_id=session_id, responses=[])

    def begin(self) -> FetchResponse:
        reader = self._reader
        reader.note_answer()
        session_id = self._session.id if self._session else 0
        return FetchResponse(session_id=session_id, responses=[], node_endpoints=list(reader.leaders.values()))

    def add(self, response: FetchResponse, some: Sequence[RequestedPartition], start: int = 0) -> None:
        """Add the partitions that were read from number `start` on."""
        reader, session, topics = self._reader, self._session, response.responses
        stop = start + len(some)
        follower = session if isinstance(session, FollowerSession) else None
        partitions: list[PartitionData] = []
        previous: TopicKey | None = None
        if topics:
            last = topics[-1]
            previous, partitions = last.topic or last.topic_id, last.partitions
        read = zip(some, reader.answers[start:stop], reader.partitions[start:stop], strict=True)
        for requested, answer, partition in read:
            size = 0 if answer.records is None else len(answer.records)
            if session is not None:
                if follower is not None and partition is not None:
                    follower.settle(requested, answer, partition)
                is_changed = requested.changed(answer)
                if size and len(reader.answers) > 1:
                    session.move_to_end((requested.topic, answer.partition_index))
                if self._incremental and not is_changed:
                    continue
            if previous is None or (requested.topic is not previous and requested.topic != previous):
                previous = requested.topic
                name, topic_id = ("", previous) if isinstance(previous, UUID) else (previous, NO_ID)
                partitions = []
                topics.append(FetchableTopicResponse(name, topic_id, partitions))
            partitions.append(answer)
            if size and partition is not None:
                reader.count_sent(partition, size)
