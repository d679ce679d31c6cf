"""Faults of a run: at random times, of the kinds that the seed has chosen.

Each fault ends by itself; `heal` ends all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from pylogbroker.metadata.image import PartitionKey
from tests.simulation.broker import SimulatedBroker
from tests.simulation.cluster import SimulatedCluster
from tests.simulation.ensemble import Ensemble
from tests.simulation.quorum import SimulatedQuorum
from tests.simulation.setup import KRAFT, ZOOKEEPER
from tests.simulation.world import Timer
from tests.simulation.zookeeper_metadata import ZooKeeperMetadata

_CUT_SECONDS_MAX: Final = 4.0
_PAUSE_SECONDS_MAX: Final = 4.0
_DOWN_SECONDS_MAX: Final = 4.0
_STALL_SECONDS_MAX: Final = 3.0
_JOINING_SECONDS: Final = 2.0
_HARMLESS: Final = frozenset(("lose_connection", "lose_zookeeper", "take_snapshot"))
"""Faults while a broker in an ISR may lack records: the last one that has them must not end, too."""


class Faults:
    def __init__(self, cluster: SimulatedCluster) -> None:
        self.counts: dict[str, int] = {}
        self.cluster = cluster
        self.rng = cluster.world.rng
        self._world = cluster.world
        self._next: Timer | None = None
        self._cuts: dict[tuple[str, str], Timer] = {}

    def begin(self) -> None:
        if self.cluster.setup.faults:
            self._wait()

    def heal(self) -> None:
        """End all faults, and let all brokers run; pauses end when their time is over."""
        if self._next is not None:
            self._next.cancel()
        for link in tuple(self._cuts):
            self._end_cut(link)
        for broker in self.cluster.brokers.values():
            broker.start()

    def _wait(self) -> None:
        seconds = self.rng.expovariate(1 / self.cluster.setup.fault_seconds)
        self._next = self._world.call_later(seconds, self._strike)

    def _strike(self) -> None:
        name = self.rng.choice(self.cluster.setup.faults)
        may_strike = not self.cluster.lossy or name in _HARMLESS
        if may_strike and KINDS[self.cluster.setup.engine][name](self):
            self._world.note(f"fault: {name}\n")
            self.counts[name] = self.counts.get(name, 0) + 1
        self._wait()

    def seconds(self, longest: float) -> float:
        """Return a time, which is more often short."""
        return self.rng.random() ** 2 * longest + 0.01

    def _any_broker(self) -> SimulatedBroker:
        return self.rng.choice(list(self.cluster.brokers.values()))

    def _any_serving(self) -> SimulatedBroker | None:
        serving = self.cluster.serving
        return self.rng.choice(serving) if serving else None

    # network

    def lose_connection(self) -> bool:
        connections = list(self.cluster.network.connections)
        if connections:
            self.rng.choice(connections).reset(self.rng.random() < 0.5)
        return bool(connections)

    def cut_one_way(self) -> bool:
        self._cut([self._any_link()])
        return True

    def cut_both_ways(self) -> bool:
        one, other = self._any_link()
        self._cut([(one, other), (other, one)])
        return True

    def isolate(self) -> bool:
        """Cut a broker off from all hosts, perhaps but for the servers of the metadata."""
        isolated = self._any_broker().host
        others = [host for host in self.cluster.hosts if host != isolated]
        if self.rng.random() < 0.5:
            others = [host for host in others if host not in self.cluster.stored.hosts]
        self._cut([link for host in others for link in ((isolated, host), (host, isolated))])
        return True

    def cut_metadata(self) -> bool:
        """Cut all brokers off from the servers of the metadata."""
        brokers, servers = self.cluster.brokers.values(), self.cluster.stored.hosts
        links = [(broker.host, server) for broker in brokers for server in servers]
        self._cut([link for one, other in links for link in ((other, one), (one, other))])
        return True

    def _any_link(self) -> tuple[str, str]:
        one, other = self.rng.sample(self.cluster.hosts, 2)
        return one, other

    def _cut(self, links: list[tuple[str, str]]) -> None:
        self.cut_for(self.seconds(_CUT_SECONDS_MAX), links)

    def cut_for(self, seconds: float, links: list[tuple[str, str]]) -> None:
        for link in links:
            if link not in self._cuts:
                self.cluster.network.cut(*link)
                self._cuts[link] = self._world.call_later(seconds, self._end_cut, link)

    def _end_cut(self, link: tuple[str, str]) -> None:
        self._cuts.pop(link).cancel()
        self.cluster.network.heal(*link)

    # processes

    def pause(self) -> bool:
        process = self._any_broker().process
        if process is not None:
            process.pause(self.seconds(_PAUSE_SECONDS_MAX))
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
        if not self.cluster.setup.flushes:
            if self._cuts or not self.cluster.is_undisturbed() or self.cluster.may_be_reassigned():
                return False
            if not all(self._survives_without(broker, key) for key in self.cluster.states()):
                return False
            self.cluster.lossy[broker.id] = None
        broker.kill(power_loss=True)
        self._start_later(broker)
        return True

    def _survives_without(self, broker: SimulatedBroker, key: PartitionKey) -> bool:
        isr = self.cluster.state(key).isr
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
        power_loss = self.cluster.setup.flushes and self.rng.random() < 0.5
        running = [broker for broker in self.cluster.brokers.values() if broker.process is not None]
        for broker in running:
            broker.kill(power_loss=power_loss)
            self._start_later(broker)
        return bool(running)

    def _start_later(self, broker: SimulatedBroker) -> None:
        self._world.call_later(self.seconds(_DOWN_SECONDS_MAX), broker.start)


# faults of the metadata's servers


def _expire_session(faults: Faults) -> bool:
    ensemble = _ensemble(faults)
    sessions = list(ensemble.sessions.values())
    if sessions:
        ensemble.expire(faults.rng.choice(sessions))
    return bool(sessions)


def _lose_zookeeper(faults: Faults) -> bool:
    """Cut one broker's connection to ZooKeeper: the outcome of its requests is unknown."""
    clients = [session.client for session in _ensemble(faults).sessions.values() if session.client.is_connected]
    if clients:
        faults.rng.choice(clients).lose()
    return bool(clients)


def _ensemble(faults: Faults) -> Ensemble:
    stored = faults.cluster.stored
    assert isinstance(stored, ZooKeeperMetadata)
    return stored.ensemble


def _quorum(faults: Faults) -> SimulatedQuorum:
    stored = faults.cluster.stored
    assert isinstance(stored, SimulatedQuorum)
    return stored


def _fail_over(faults: Faults) -> bool:
    """Let another controller lead; what the former one has not committed may be lost."""
    _quorum(faults).fail_over()
    return True


def _stall_commits(faults: Faults) -> bool:
    """Let controllers commit nothing for a time, perhaps until another one leads."""
    quorum, seconds = _quorum(faults), faults.seconds(_STALL_SECONDS_MAX)
    quorum.stalled_until = faults.cluster.world.now + seconds
    if faults.rng.random() < 0.5:
        faults.cluster.world.call_later(seconds, quorum.fail_over)
    return True


def _pause_controller(faults: Faults) -> bool:
    """Pause the active controller; perhaps another one leads meanwhile."""
    quorum = _quorum(faults)
    if quorum.leader is None:
        return False
    seconds = faults.seconds(_STALL_SECONDS_MAX)
    quorum.leader.process.pause(seconds)
    if faults.rng.random() < 0.5:
        faults.cluster.world.call_later(faults.rng.random() * seconds, quorum.fail_over)
    return True


def _take_snapshot(faults: Faults) -> bool:
    """Let the log of the active controller begin at its end: brokers that are behind read the snapshot."""
    controller = _quorum(faults).controller
    if controller is not None:
        controller.begin_with_snapshot()
    return controller is not None


def _fence(faults: Faults) -> bool:
    """Let the controller fence a broker, as if it had heard nothing of it."""
    controller = _quorum(faults).controller
    live = [] if controller is None else [broker for broker in controller.members if controller.state.is_live(broker)]
    if controller is not None and live:
        controller.fence(faults.rng.choice(live))
    return bool(live)


def _lose_joining(faults: Faults) -> bool:
    """Let the next broker that is added to an ISR, and is in none, lose power before the controller knows of it.

    It starts at once, cut off from its leader. The controller gets the change of the ISR, which names its former life,
    when it is registered again. What it has lost is stored by others.
    """
    quorum, cluster = _quorum(faults), faults.cluster

    def restart(leader: int, joined: int) -> None:
        broker, other = cluster.brokers[joined], cluster.brokers[leader]
        if broker.process is None:
            return
        cluster.lossy[joined] = None
        broker.kill(power_loss=True)
        broker.start()
        faults.cut_for(_JOINING_SECONDS, [(broker.host, other.host), (other.host, broker.host)])

    quorum.on_joining = restart
    return True


def _prefer_leaders(faults: Faults) -> bool:
    """Let the controller give leaderships back to the first replicas."""
    controller = _quorum(faults).controller
    if controller is not None:
        controller.append(*controller.replicas.preferred())
    return controller is not None


_PROCESSES: Final[Mapping[str, Callable[[Faults], bool]]] = {
    call.__name__: call for call in (Faults.pause, Faults.kill, Faults.lose_power, Faults.stop, Faults.restart_all)
}
_LINKS: Final[Mapping[str, Callable[[Faults], bool]]] = {
    call.__name__: call for call in (Faults.lose_connection, Faults.cut_one_way, Faults.cut_both_ways, Faults.isolate)
}
KINDS: Final[Mapping[str, Mapping[str, Callable[[Faults], bool]]]] = {
    ZOOKEEPER: {
        **_LINKS,
        "cut_zookeeper": Faults.cut_metadata,
        **_PROCESSES,
        "expire_session": _expire_session,
        "lose_zookeeper": _lose_zookeeper,
    },
    KRAFT: {
        **_LINKS,
        "cut_controllers": Faults.cut_metadata,
        **_PROCESSES,
        "fail_over": _fail_over,
        "stall_commits": _stall_commits,
        "pause_controller": _pause_controller,
        "take_snapshot": _take_snapshot,
        "fence": _fence,
        "lose_joining": _lose_joining,
        "prefer_leaders": _prefer_leaders,
    },
}
"""Kinds of faults by the engine that keeps the metadata."""
