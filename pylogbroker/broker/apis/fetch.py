"""Fetch (1): records from an offset on, as the log's own bytes."""

from __future__ import annotations

from collections.abc import Awaitable, Generator

from pylogbroker.broker.api import serves
from pylogbroker.broker.context import RequestContext
from pylogbroker.broker.fetch.operation import FetchOperation
from pylogbroker.broker.fetch.sessions import FIRST_EPOCH, requested_partitions
from pylogbroker.broker.requested_partitions import count_elements
from pylogbroker.broker.services import Services
from pylogbroker.broker.slices import inline_if_short
from pylogbroker.errors import KafkaError
from pylogbroker.wire.messages.fetch import FetchRequest, FetchResponse

_FIRST_WITH_IDS = 13


Answer = FetchResponse | Awaitable[FetchResponse]


@serves(FetchRequest, is_read=True)
def handle(
    services: Services, context: RequestContext, request: FetchRequest
) -> Answer | Generator[None, None, Answer]:
    return inline_if_short(_begin(services, context, request), count_elements(request.topics))


def _begin(services: Services, context: RequestContext, request: FetchRequest) -> Generator[None, None, Answer]:
    by_id = context.api_version >= _FIRST_WITH_IDS
    requested = yield from requested_partitions(request, by_id)
    try:
        session = services.fetches.sessions.enter(request, requested, services.runtime.now_ms(), by_id)
    except KafkaError as error:
        return FetchResponse(error_code=error.code)
    incremental = session is not None and request.session_epoch > FIRST_EPOCH
    asked = list((requested if session is None else session.partitions).values())
    return FetchOperation(services, context, request, session, asked, incremental).run()
