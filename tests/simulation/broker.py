"""A broker of the simulation: files that outlive its processes, and one process at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from pylogbroker.broker.assembly import Broker
from pylogbroker.broker.kraft.role import KraftRole
from pylogbroker.broker.membership.cluster_role import ClusterRole
from pylogbroker.config import BrokerConfig
from pylogbroker.errors import StartupError
from pylogbroker.tap.lifecycle import BrokerStart, ServingBroker
from tests.simulation.disk import SyncedSizes
from tests.simulation.world import Process, World

PORT: Final = 9092
RESTART_SECONDS: Final = 1.0


def host_of(broker_id: int) -> str:
    return f"10.0.0.{broker_id}"


class SimulatedBroker:
    """`wanted` says whether it should run: a start that failed is repeated."""

    def __init__(
        self,
        world: World,
        broker_id: int,
        directory: str,
        disk: SyncedSizes,
        settings: dict[str, str],
        failed: Callable[[Failure], object],
    ) -> None:
        self.id = broker_id
        self.host = host_of(broker_id)
        self.directory = directory
        self.process: Process | None = None
        self.serving: ServingBroker | None = None
        self.wanted = False
        self.on_ended: list[Callable[[SimulatedBroker], object]] = []
        """Called when a process has ended, and the files are at rest."""
        self._starting: BrokerStart | None = None
        self._is_stopping = False
        self._disk = disk
        self._failed = failed
        self._world = world
        self._lives = 0
        self._settings = {
            "node.id": str(broker_id),
            "listeners": f"PLAINTEXT://{self.host}:{PORT}",
            "log.dirs": directory,
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
    def state(self) -> str:
        if self.process is None:
            return "is down"
        return "stops" if self._is_stopping else "starts" if self.serving is None else "serves"

    @property
    def assembled(self) -> Broker | None:
        """Return the broker, also one that is starting."""
        if self.serving is not None:
            return self.serving.broker
        return None if self._starting is None else self._starting._assembled

    @property
    def role(self) -> ClusterRole | KraftRole | None:
        broker = self.assembled
        if broker is None:
            return None
        assert isinstance(broker.role, ClusterRole | KraftRole)
        return broker.role

    @property
    def epoch(self) -> int:
        """Return the broker epoch; -1 for a broker that has none."""
        role = self.role
        if role is None:
            return -1
        return role._broker_epoch() if isinstance(role, KraftRole) else role._member.epoch

    def start(self) -> None:
        """Start, unless it runs; one that is still stopping is killed first."""
        if self._is_stopping:
            self.kill()
        self.wanted = True
        if self.process is not None:
            return
        self._lives += 1
        process = self.process = self._world.start_process(f"broker-{self.id}.{self._lives}", self.host)
        process.reactor.callLater(0, self._start, process)

    def _start(self, process: Process) -> None:
        self._starting = BrokerStart(process.reactor, BrokerConfig(self._settings), process.reactor)
        done = Deferred.fromCoroutine(self._starting.run())
        done.addCallbacks(self._started, self._not_started).addErrback(self._failed)

    def _started(self, serving: ServingBroker) -> None:
        self.serving = serving

    def _not_started(self, failure: Failure) -> None:
        failure.trap(StartupError)
        self._world.note(f"broker {self.id} did not start: {failure.getErrorMessage()}\n")
        self._ended()
        self._world.call_later(RESTART_SECONDS, self._start_again)

    def _start_again(self) -> None:
        if self.wanted:
            self.start()

    def stop(self) -> None:
        """Stop in an orderly way, as a signal does; the broker serves."""
        self.wanted = False
        assert self.process is not None
        self._is_stopping = True
        self.process.reactor.callLater(0, self._stop, self.serving)

    def _stop(self, serving: ServingBroker) -> None:
        Deferred.fromCoroutine(serving.stop()).addCallback(lambda _: self._ended()).addErrback(self._failed)

    def kill(self, *, power_loss: bool = False) -> None:
        """End the process at once; the files stay as they are, or lose what was not synced."""
        self.wanted = False
        if self.process is not None:
            self._ended(power_loss)

    def _ended(self, power_loss: bool = False) -> None:
        process, self.process = self.process, None
        self.serving = self._starting = None
        self._is_stopping = False
        assert process is not None
        process.end(silently=power_loss)
        self._disk.end_process(self.directory, self._world.rng if power_loss else None)
        for call in self.on_ended:
            call(self)
