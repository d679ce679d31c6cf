"""A broker of the simulation: files that outlive its processes, and one process at a time."""

from __future__ import annotations

from typing import Any, Final

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from pylogbroker.broker.assembly import Broker
from pylogbroker.broker.membership.cluster_role import ClusterRole
from pylogbroker.config import BrokerConfig
from pylogbroker.errors import StartupError
from pylogbroker.tap.lifecycle import BrokerStart, ServingBroker
from tests.simulation.disk import copy_files
from tests.simulation.world import Process, World

PORT: Final = 9092
RESTART_SECONDS: Final = 1.0


def host_of(broker_id: int) -> str:
    return f"10.0.0.{broker_id}"


class SimulatedBroker:
    """`wanted` says whether it should run: a start that failed is repeated."""

    def __init__(self, world: World, broker_id: int, directory: str, settings: dict[str, str]) -> None:
        self.id = broker_id
        self.host = host_of(broker_id)
        self.directory = directory
        self.process: Process | None = None
        self.serving: ServingBroker | None = None
        self.wanted = False
        self.failures: list[str] = []
        self._starting: BrokerStart | None = None
        self._world = world
        self._lives = 0
        self._settings = {
            "broker.id": str(broker_id),
            "listeners": f"PLAINTEXT://{self.host}:{PORT}",
            "log.dirs": directory,
            "zookeeper.connect": "zookeeper:2181",
            "log.cleaner.enable": "false",
            "reactor.stall.warn.ms": "0",
            "num.recovery.threads.per.data.dir": "1",
            "socket.send.buffer.bytes": "-1",
            "socket.receive.buffer.bytes": "-1",
            **settings,
        }

    @property
    def broker(self) -> Broker | None:
        """Return the broker that serves now."""
        return None if self.serving is None else self.serving.broker

    @property
    def assembled(self) -> Broker | None:
        """Return the broker, also one that is starting."""
        if self.serving is not None:
            return self.serving.broker
        return None if self._starting is None else self._starting._assembled

    @property
    def role(self) -> ClusterRole | None:
        broker = self.assembled
        if broker is None:
            return None
        assert isinstance(broker.role, ClusterRole)
        return broker.role

    def start(self) -> None:
        self.wanted = True
        if self.process is not None:
            return
        self._lives += 1
        process = self.process = self._world.start_process(f"broker-{self.id}.{self._lives}", self.host)
        process.reactor.callLater(0, self._start, process)

    def _start(self, process: Process) -> None:
        self._starting = BrokerStart(process.reactor, BrokerConfig(self._settings))
        done = Deferred.fromCoroutine(self._starting.run())
        done.addCallbacks(self._started, self._not_started)

    def _started(self, serving: ServingBroker) -> None:
        self.serving = serving

    def _not_started(self, failure: Failure) -> None:
        failure.trap(StartupError)
        self.failures.append(failure.getErrorMessage())
        self._ended()
        self._world.call_later(RESTART_SECONDS, self._start_again)

    def _start_again(self) -> None:
        if self.wanted:
            self.start()

    def stop(self) -> None:
        """Stop in an orderly way, as a signal does."""
        self.wanted = False
        serving = self.serving
        if serving is not None:
            assert self.process is not None
            self.process.reactor.callLater(0, self._stop, serving)

    def _stop(self, serving: ServingBroker) -> None:
        Deferred.fromCoroutine(serving.stop()).addCallbacks(lambda _: self._ended(), self._not_stopped)

    def _not_stopped(self, failure: Failure) -> None:
        raise AssertionError(f"broker {self.id} did not stop: {failure.getTraceback()}")

    def kill(self) -> None:
        """End the process at once; the files stay as they are."""
        self.wanted = False
        if self.process is not None:
            self._ended()
            copy_files(self.directory)

    def _ended(self) -> None:
        process, self.process = self.process, None
        self.serving = self._starting = None
        if process is not None:
            process.end()

    def describe(self) -> dict[str, Any]:
        state = "down" if self.process is None else "serves" if self.serving is not None else "starts"
        return {"id": self.id, "state": state}
