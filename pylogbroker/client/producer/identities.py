"""Producer ids for idempotence without transactions; the first batch requests one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs
from twisted.logger import Logger

from pylogbroker.background import run_in_background
from pylogbroker.client.cluster import Cluster
from pylogbroker.client.errors import is_retriable
from pylogbroker.client.partition_queue import ProducerIdentity
from pylogbroker.client.producer.batch import BatchQueue
from pylogbroker.errors import PylogbrokerError
from pylogbroker.rpc.backoff import Backoff
from pylogbroker.rpc.errors import raise_for
from pylogbroker.rpc.retries import Pauses, retrying
from pylogbroker.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

log = Logger()
_NO_TIMEOUT = 2**31 - 1


class OpenGate:
    """Gate without idempotence: every partition may send."""

    produce_version: Final = None

    def admits(self, queue: BatchQueue) -> bool:
        return True


@attrs.define(eq=False, repr=False)
class Identities:
    pauses: Pauses
    cluster: Cluster
    backoff: Backoff
    resume: Callable[[list[BatchQueue]], object]  # called with queues that waited
    reject: Callable[[BaseException], object]
    produce_version: Final = None
    current: ProducerIdentity | None = None
    _waiting: list[BatchQueue] = attrs.Factory(list)
    _asking: bool = False

    def admits(self, queue: BatchQueue) -> bool:
        """Return whether the queue has a producer id; if not, request one."""
        if queue.identity is not None:
            return True
        if self.current is not None and self.current.id == queue.exhausted_id:
            self.current = None
        if self.current is not None:
            queue.start_epoch(self.current)
            return True
        self._waiting.append(queue)
        if not self._asking:
            self._asking = True
            run_in_background(log, self._ask(), "no producer id could be requested")
        return False

    async def _ask(self) -> None:
        try:
            self.current = await retrying(self._request, self.pauses, self.backoff, retriable=is_retriable)
        except PylogbrokerError as error:
            self._waiting.clear()
            self.reject(error)
        finally:
            self._asking = False
        waiting, self._waiting = self._waiting, []
        self.resume(waiting)

    async def _request(self) -> ProducerIdentity:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=_NO_TIMEOUT)
        response: InitProducerIdResponse = await self.cluster.send_anywhere(request)
        raise_for(response.error_code)
        return ProducerIdentity(response.producer_id, response.producer_epoch)
