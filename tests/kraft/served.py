"""The model of a controller at a port of this machine, on a reactor in a thread: for test brokers and processes.

with served_controller() as served:
    with Broker(engine="kraft", controller_quorum_bootstrap_servers=served.address) as broker:
        served.call(lambda controller: controller.fence(broker.ids[0]))
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import attrs
from twisted.internet.defer import maybeDeferred
from twisted.internet.tcp import Server

from pylogbroker.testing.reactor_thread import ReactorThread
from pylogbroker.wire import Response
from pylogbroker.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from pylogbroker.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from pylogbroker.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from pylogbroker.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from pylogbroker.wire.metadata_records import UnregisterBrokerRecord
from tests.kraft.model_controller import CLUSTER_ID, ModelController

T = TypeVar("T")


class AdministeredController(ModelController):
    """Answers what administrators ask a controller itself, too."""

    def answer(self, request: Any, version: int, done: Callable[[Response], None]) -> None:
        def with_more(response: Response) -> None:
            if isinstance(response, ApiVersionsResponse):
                for kind in (DescribeClusterRequest, UnregisterBrokerRequest):
                    response.api_keys.append(ApiVersion(kind.api_key, kind.versions.first, kind.versions.last))
            done(response)

        super().answer(request, version, with_more if isinstance(request, ApiVersionsRequest) else done)

    def _answer_at_once(self, request: Any, version: int) -> Response:
        match request:
            case DescribeClusterRequest():
                own = DescribeClusterBroker(self.node_id, self.host, self.port)
                return DescribeClusterResponse(cluster_id=CLUSTER_ID, controller_id=self.node_id, brokers=[own])
            case ListPartitionReassignmentsRequest():
                return ListPartitionReassignmentsResponse()
            case UnregisterBrokerRequest():
                self.append(UnregisterBrokerRecord(request.broker_id, self.members[request.broker_id].epoch))
                return UnregisterBrokerResponse()
        return super()._answer_at_once(request, version)


@attrs.frozen
class ServedController:
    _thread: ReactorThread
    _controller: ModelController
    _port: Any

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._controller.port}"

    def stop(self) -> None:
        """Close the port and all connections: the controller does not answer any more."""

        async def close() -> None:
            await maybeDeferred(self._port.stopListening)
            for reader in self._thread.reactor.getReaders():
                if isinstance(reader, Server):
                    reader.abortConnection()

        self._thread.call(close, "end of the controller")

    def call(self, work: Callable[[ModelController], T]) -> T:
        """Return what `work` returns, called on the controller's thread."""

        async def run() -> T:
            return work(self._controller)

        return self._thread.call(run, "work of the controller")


@contextmanager
def served_controller() -> Iterator[ServedController]:
    thread = ReactorThread()
    thread.start()

    async def listen() -> tuple[ModelController, Any]:
        controller = AdministeredController(thread.reactor)
        port = thread.reactor.listenTCP(0, controller.factory, interface="127.0.0.1")
        controller.port = port.getHost().port
        return controller, port

    try:
        yield ServedController(thread, *thread.call(listen, "the controller"))
    finally:
        thread.stop()
