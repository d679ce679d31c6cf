"""Fetch (1): records from an offset on, as the log's own bytes."""

from __future__ import annotations

from collections.abc import Awaitable

from pylogbroker.broker.api import serves
from pylogbroker.broker.context import RequestContext
from pylogbroker.broker.fetch.operation import FetchOperation
from pylogbroker.broker.fetch.sessions import FIRST_EPOCH, requested_partitions
from pylogbroker.broker.services import Services
from pylogbroker.errors import KafkaError
from pylogbroker.wire.messages.fetch import FetchRequest, FetchResponse

_FIRST_WITH_IDS = 13


@serves(FetchRequest, is_read=True)
def handle(
    services: Services, context: RequestContext, request: FetchRequest
) -> FetchResponse | Awaitable[FetchResponse]:
    by_id = context.api_version >= _FIRST_WITH_IDS
    try:
        session = services.fetches.sessions.enter(request, services.runtime.now_ms(), by_id)
    except KafkaError as error:
        return FetchResponse(error_code=error.code)
    incremental = session is not None and request.session_epoch > FIRST_EPOCH
    asked = (
        list(session.partitions.values())
        if session is not None
        else list(requested_partitions(request, by_id).values())
    )
    return FetchOperation(services, context, request, session, asked, incremental).run()
