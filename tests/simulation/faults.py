"""Faults of a run: at random times, of the kinds that the seed has chosen.

Each fault ends by itself; `heal` ends all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from pylogbroker.metadata.image import PartitionKey
from tests.simulation import ensemble
from tests.simulation.broker import SimulatedBroker
from tests.simulation.cluster import SimulatedCluster
from tests.simulation.world import Timer

_CUT_SECONDS_MAX: Final = 4.0
_PAUSE_SECONDS_MAX: Final = 4.0
_DOWN_SECONDS_MAX: Final = 4.0
_HARMLESS: Final = frozenset(("lose_connection", "lose_zookeeper"))
"""Faults while a broker in an ISR may lack records: the last one that has them must not end, too."""


class Faults:
    def __init__(self, cluster: SimulatedCluster) -> None:
        self.counts: dict[str, int] = {}
        self._cluster = cluster
        self._world = cluster.world
        self._rng = cluster.world.rng
        self._next: Timer | None = None
        self._cuts: dict[tuple[str, str], Timer] = {}

    def begin(self) -> None:
        if self._cluster.setup.faults:
            self._wait()

    def heal(self) -> None:
        """End all faults, and let all brokers run; pauses end when their time is over."""
        if self._next is not None:
            self._next.cancel()
        for link in tuple(self._cuts):
            self._end_cut(link)
        for broker in self._cluster.brokers.values():
            broker.start()

    def _wait(self) -> None:
        seconds = self._rng.expovariate(1 / self._cluster.setup.fault_seconds)
        self._next = self._world.call_later(seconds, self._strike)

    def _strike(self) -> None:
        name = self._rng.choice(self._cluster.setup.faults)
        may_strike = not self._cluster.lossy or name in _HARMLESS
        if may_strike and FAULTS[name](self):
            self._world.note(f"fault: {name}\n")
            self.counts[name] = self.counts.get(name, 0) + 1
        self._wait()

    def _seconds(self, longest: float) -> float:
        """Return a time, which is more often short."""
        return self._rng.random() ** 2 * longest + 0.01

    def _any_broker(self) -> SimulatedBroker:
        return self._rng.choice(list(self._cluster.brokers.values()))

    def _any_serving(self) -> SimulatedBroker | None:
        serving = self._cluster.serving
        return self._rng.choice(serving) if serving else None

    # network

    def lose_connection(self) -> bool:
        connections = list(self._cluster.network.connections)
        if connections:
            self._rng.choice(connections).reset(self._rng.random() < 0.5)
        return bool(connections)

    def cut_one_way(self) -> bool:
        self._cut([self._any_link()])
        return True

    def cut_both_ways(self) -> bool:
        one, other = self._any_link()
        self._cut([(one, other), (other, one)])
        return True

    def isolate(self) -> bool:
        """Cut a broker off from all hosts, perhaps but for clients or ZooKeeper."""
        isolated = self._any_broker().host
        others = [host for host in self._cluster.hosts if host != isolated]
        if self._rng.random() < 0.5:
            others.remove(ensemble.HOST)
        self._cut([link for host in others for link in ((isolated, host), (host, isolated))])
        return True

    def cut_zookeeper(self) -> bool:
        brokers = [broker.host for broker in self._cluster.brokers.values()]
        self._cut([link for host in brokers for link in ((ensemble.HOST, host), (host, ensemble.HOST))])
        return True

    def _any_link(self) -> tuple[str, str]:
        one, other = self._rng.sample(self._cluster.hosts, 2)
        return one, other

    def _cut(self, links: list[tuple[str, str]]) -> None:
        seconds = self._seconds(_CUT_SECONDS_MAX)
        for link in links:
            if link not in self._cuts:
                self._cluster.network.cut(*link)
                self._cuts[link] = self._world.call_later(seconds, self._end_cut, link)

    def _end_cut(self, link: tuple[str, str]) -> None:
        self._cuts.pop(link).cancel()
        self._cluster.network.heal(*link)

    # processes

    def pause(self) -> bool:
        process = self._any_broker().process
        if process is not None:
            process.pause(self._seconds(_PAUSE_SECONDS_MAX))
        return process is not None

    def kill(self) -> bool:
        broker = self._any_broker()
        if broker.process is None:
            return False
        broker.kill()
        self._start_later(broker)
        return True

    def lose_power(self) -> bool:
        """Kill a broker, which loses unsynced records; without `flushes` only if others in the ISRs have these."""
        broker = self._any_broker()
        if broker.process is None:
            return False
        if not self._cluster.setup.flushes:
            if self._cuts or not self._cluster.is_undisturbed() or self._cluster.may_be_reassigned():
                return False
            if not self._cluster.ensemble.is_undisturbed:  # those that have the records may leave the ISRs first
                return False
            if not all(self._survives_without(broker, key) for key in self._cluster.states()):
                return False
            self._cluster.lossy[broker.id] = None
        broker.kill(power_loss=True)
        self._start_later(broker)
        return True

    def _survives_without(self, broker: SimulatedBroker, key: PartitionKey) -> bool:
        isr = self._cluster.state(key).isr
        return broker.id not in isr or len(isr) > 1

    def stop(self) -> bool:
        """Stop a broker in an orderly way; one that takes long is killed."""
        broker = self._any_serving()
        if broker is None:
            return False
        broker.stop()
        self._start_later(broker)
        return True

    def restart_all(self) -> bool:
        """Kill all brokers at once; with `flushes`, what is committed survives a loss of power, too."""
        power_loss = self._cluster.setup.flushes and self._rng.random() < 0.5
        running = [broker for broker in self._cluster.brokers.values() if broker.process is not None]
        for broker in running:
            broker.kill(power_loss=power_loss)
            self._start_later(broker)
        return bool(running)

    def _start_later(self, broker: SimulatedBroker) -> None:
        self._world.call_later(self._seconds(_DOWN_SECONDS_MAX), broker.start)

    # ZooKeeper

    def expire_session(self) -> bool:
        sessions = list(self._cluster.ensemble.sessions.values())
        if sessions:
            self._cluster.ensemble.expire(self._rng.choice(sessions))
        return bool(sessions)

    def lose_zookeeper(self) -> bool:
        """Cut one broker's connection to ZooKeeper: the outcome of its requests is unknown."""
        clients = [each.client for each in self._cluster.ensemble.sessions.values() if each.client.is_connected]
        if clients:
            self._rng.choice(clients).lose()
        return bool(clients)


FAULTS: Final[Mapping[str, Callable[[Faults], bool]]] = {
    call.__name__: call
    for call in (
        Faults.lose_connection,
        Faults.cut_one_way,
        Faults.cut_both_ways,
        Faults.isolate,
        Faults.cut_zookeeper,
        Faults.pause,
        Faults.kill,
        Faults.lose_power,
        Faults.stop,
        Faults.restart_all,
        Faults.expire_session,
        Faults.lose_zookeeper,
    )
}
