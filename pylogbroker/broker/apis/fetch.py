"""Fetch (1): records from an offset on, as the log's own bytes."""

from __future__ import annotations

from collections.abc import Awaitable, Generator

from pylogbroker.broker.api import serves
from pylogbroker.broker.context import RequestContext
from pylogbroker.broker.fetch.operation import fetch
from pylogbroker.broker.fetch.session import (
    RequestedPartitions,
    requested_partitions,
    requested_partitions_in_steps,
)
from pylogbroker.broker.fetch.sessions import FINAL_EPOCH, FIRST_EPOCH
from pylogbroker.broker.requested_partitions import count_elements
from pylogbroker.broker.security.rules import by_handler
from pylogbroker.broker.services import Services
from pylogbroker.broker.slices import ITEMS_INLINE_MAX
from pylogbroker.errors import KafkaError
from pylogbroker.wire.messages.fetch import FetchRequest, FetchResponse

_FIRST_WITH_IDS = 13


Answer = FetchResponse | Awaitable[FetchResponse]


@serves(FetchRequest, access=[by_handler], is_read=True)
def handle(
    services: Services, context: RequestContext, request: FetchRequest
) -> Answer | Generator[None, None, Answer]:
    by_id = context.api_version >= _FIRST_WITH_IDS
    if count_elements(request.topics) > ITEMS_INLINE_MAX:
        return _in_steps(services, context, request, by_id)
    return _fetch(services, context, request, by_id, requested_partitions(request, by_id))


def _in_steps(
    services: Services, context: RequestContext, request: FetchRequest, by_id: bool
) -> Generator[None, None, Answer]:
    requested = yield from requested_partitions_in_steps(request, by_id)
    return _fetch(services, context, request, by_id, requested)


def _fetch(
    services: Services, context: RequestContext, request: FetchRequest, by_id: bool, requested: RequestedPartitions
) -> Answer:
    if not request.session_id and request.session_epoch == FINAL_EPOCH:  # librdkafka has no sessions
        return fetch(services, context, request, None, list(requested.values()), False)
    try:
        session = services.fetches.sessions.enter(request, requested, services.runtime.now_ms(), by_id)
    except KafkaError as error:
        return FetchResponse(error_code=error.code)
    asked = list(requested.values()) if session is None else session.to_read()
    return fetch(
        services, context, request, session, asked, session is not None and request.session_epoch > FIRST_EPOCH
    )
