"""Responses to fetch requests, made of what a reader has found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from uuid import UUID

import attrs

from pylogbroker.broker.context import RequestContext
from pylogbroker.broker.fetch.follower_session import FollowerSession
from pylogbroker.broker.fetch.reader import FetchReader
from pylogbroker.broker.fetch.session import FetchSession, RequestedPartition, TopicKey
from pylogbroker.broker.services import Services
from pylogbroker.errors import KafkaError
from pylogbroker.wire import NO_ID
from pylogbroker.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData

FetchedPartition = tuple[RequestedPartition, PartitionData]


@attrs.define(eq=False)
class FetchResponseBuilder:
    """Builds the response to one request; `begin` and `add` do so in parts."""

    _services: Services
    _context: RequestContext
    _reader: FetchReader
    _session: FetchSession | None
    _incremental: bool

    def build(self, asked: Sequence[RequestedPartition]) -> FetchResponse:
        """Return the response with all partitions that were read."""
        throttled = self.throttled_response()
        if throttled is not None:
            return throttled
        response = self.begin()
        self.add(response, asked, self._reader.answers)
        return response

    def throttled_response(self) -> FetchResponse | None:
        """Return an empty answer to a consumer over its quota; else the records that are read count."""
        meters = self._services.quotas.meters
        if meters is None or self._reader.is_follower:
            return None
        throttle_ms = meters.fetch_throttle_ms(self._context, self._reader.size)
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
        if reader.throttled:
            self._services.fetches.leader_throttle.record(reader.throttled, self._services.runtime.now_ms())
        session_id = self._session.id if self._session else 0
        return FetchResponse(session_id=session_id, responses=[], node_endpoints=list(reader.leaders.values()))

    def add(
        self, response: FetchResponse, some: Sequence[RequestedPartition], answers: Sequence[PartitionData]
    ) -> None:
        pairs: Iterable[FetchedPartition] = zip(some, answers, strict=True)
        if (session := self._session) is not None:
            pairs = list(pairs)
            if isinstance(session, FollowerSession):
                self._settle(session, pairs)
            changed = [pair for pair in pairs if pair[0].changed(pair[1])]
            session.move_to_end((asked.topic, asked.partition.partition) for asked, answer in changed if answer.records)
            if self._incremental:
                pairs = changed
        topics = response.responses
        previous: TopicKey | None = None
        if topics:
            last = topics[-1]
            previous, partitions = last.topic or last.topic_id, last.partitions
        for asked, answer in pairs:
            if asked.topic != previous:
                previous = asked.topic
                name, topic_id = ("", previous) if isinstance(previous, UUID) else (previous, NO_ID)
                partitions = []
                topics.append(FetchableTopicResponse(name, topic_id, partitions))
            partitions.append(answer)
            if answer.records:
                self._reader.count_sent(asked.topic, len(answer.records))

    def _settle(self, session: FollowerSession, pairs: Sequence[FetchedPartition]) -> None:
        for asked, answer in pairs:
            has_news = answer.error_code or answer.diverging_epoch.epoch >= 0
            if not has_news and asked.partition.fetch_offset == answer.high_watermark:
                with suppress(KafkaError):  # the partition is gone: the next pass raises it again
                    session.settle(asked, answer, self._reader.find(asked))
