"""Fetch (1): records from an offset on, as the log's own bytes."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from pylogbroker.broker.fetch.operation import fetch
from pylogbroker.broker.fetch.session import (
    RequestedPartitions,
    many_requested_partitions,
    requested_partitions,
)
from pylogbroker.broker.fetch.sessions import FINAL_EPOCH, FIRST_EPOCH
from pylogbroker.broker.repeated.fetch import RepeatedFetch
from pylogbroker.broker.repeated.fetch_several import FetchOfSeveral
from pylogbroker.broker.repeated.session_fetch import RepeatedSessionFetch
from pylogbroker.broker.requests.api import serves
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.requests.requested_partitions import count_elements
from pylogbroker.broker.security.rules import by_handler
from pylogbroker.broker.services import HasFetches, HasMetadata, HasNode, HasPartitions, HasQuotas, HasRuntime
from pylogbroker.errors import KafkaError
from pylogbroker.long_loops import settled
from pylogbroker.wire.messages.fetch import FetchRequest, FetchResponse

_FIRST_WITH_IDS = 13
_PARTITIONS_INLINE_MAX = 500  # some hundred microseconds


Answer = FetchResponse | Awaitable[FetchResponse]


class _Services(HasRuntime, HasMetadata, HasPartitions, HasQuotas, HasNode, HasFetches, Protocol):
    """Services that this API uses."""


def _learn(
    services: _Services,
    context: RequestContext,
    frame: memoryview,
    body_at: int,
    request: FetchRequest,
    response: FetchResponse | None,
) -> RepeatedFetch | RepeatedSessionFetch | FetchOfSeveral | None:
    if request.session_id and request.session_epoch > FIRST_EPOCH:
        return RepeatedSessionFetch.learn(services, context, frame, body_at, request)
    if count_elements(request.topics) > 2:
        return FetchOfSeveral.learn(services, context, frame, body_at, request)
    return None if response is None else RepeatedFetch.learn(services, context, frame, body_at, request, response)


@serves(FetchRequest, access=[by_handler], is_read=True, learn=_learn)
def handle(services: _Services, context: RequestContext, request: FetchRequest) -> Answer:
    by_id = context.api_version >= _FIRST_WITH_IDS
    if count_elements(request.topics) > _PARTITIONS_INLINE_MAX:
        return _fetch_many(services, context, request, by_id)
    return _fetch(services, context, request, by_id, requested_partitions(request, by_id))


async def _fetch_many(
    services: _Services, context: RequestContext, request: FetchRequest, by_id: bool
) -> FetchResponse:
    requested = await many_requested_partitions(request, by_id)
    return await settled(_fetch(services, context, request, by_id, requested))


def _fetch(
    services: _Services, context: RequestContext, request: FetchRequest, by_id: bool, requested: RequestedPartitions
) -> Answer:
    if not request.session_id and request.session_epoch == FINAL_EPOCH:  # librdkafka has no sessions
        return fetch(services, context, request, None, list(requested.values()), False)
    try:
        session = services.fetches.sessions.enter(request, requested, services.runtime.now_ms(), by_id)
    except KafkaError as error:
        return FetchResponse(error_code=error.code)
    partitions = list(requested.values()) if session is None else session.to_read()
    return fetch(
        services, context, request, session, partitions, session is not None and request.session_epoch > FIRST_EPOCH
    )
