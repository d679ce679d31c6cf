"""Apache Kafka's controllers in processes of their own, which a test ends, pauses and cuts off one by one.

    quorum = ApacheQuorum.make(directory, "kafka-4.4", 3, settings, network)
    quorum.start_all()
    quorum.kill(quorum.wait_for_active())
    quorum.voters                               # "100@127.0.0.1:15001,..."

With a network, brokers and controllers reach each controller by a proxy, whose address it advertises.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, Self

import attrs

from pylogbroker.records import complete_entries, entries
from pylogbroker.wire.metadata_records import MetadataRecord, decode_record
from tests.cluster.network import Network
from tests.cluster.states import NONE
from tests.kraft.logs import snapshot
from tests.peers.kafka import KafkaBroker
from tests.peers.processes import SHORT_LIVED, free_ports
from tests.support.waiting import wait_until

FIRST_CONTROLLER: Final = 100
WAIT_SECONDS_MAX: Final = 120.0
START_SECONDS_MAX: Final = 300.0
_PER_BATCH: Final = 1000


@attrs.define
class Controller(KafkaBroker):
    """Apache Kafka as a controller alone.

    With `first_records` it is formatted as releases before 4.1 do it: the first leader writes those of the format, and
    these, in a metadata transaction.
    """

    first_records: Sequence[MetadataRecord] = ()

    def all_settings(self) -> Mapping[str, str]:
        settings = {**super().all_settings(), "listeners": f"CONTROLLER://127.0.0.1:{self.port}"}
        if "advertised.listeners" not in self.settings:
            del settings["advertised.listeners"]
        return settings

    def _prepare(self, properties: Path, logging: Path) -> None:
        """Format the data directory unless that is done."""
        is_new = not self.data.exists()
        KafkaBroker._prepare(self, properties, logging)
        if is_new and self.first_records:
            [file] = self.data.rglob("*.checkpoint")
            formatted = entries(complete_entries(file.read_bytes()))
            values = [record.value for entry in formatted if not entry.is_control for record in entry.records()]
            features = [decode_record(value) for value in values if value is not None]
            file.unlink()
            checkpoint = snapshot([*features, *self.first_records], per_batch=_PER_BATCH)
            (self.data / "bootstrap.checkpoint").write_bytes(checkpoint)


@attrs.define
class ApacheQuorum:
    """Controllers by their ids; `voters` has the addresses at which all others reach them."""

    controllers: Mapping[int, Controller]
    voters: str
    running: list[int] = attrs.field(factory=list)
    paused: list[int] = attrs.field(factory=list)

    @classmethod
    def make(
        cls,
        directory: Path,
        release: str,
        count: int,
        settings: Mapping[str, str],
        network: Network | None = None,
        java_options: tuple[str, ...] = SHORT_LIVED,
        formatted: tuple[str, ...] = (),
    ) -> Self:
        """Make controllers that do not run yet; `formatted` are options of `kafka-storage format`."""
        ports = dict(enumerate(free_ports(count), FIRST_CONTROLLER))
        reached = {
            number: port if network is None else network.proxy(number, port).port for number, port in ports.items()
        }
        voters = ",".join(f"{number}@127.0.0.1:{port}" for number, port in reached.items())
        controllers = {}
        for number, port in ports.items():
            own = {
                "process.roles": "controller",
                "node.id": str(number),
                "controller.quorum.voters": voters,
                "advertised.listeners": f"CONTROLLER://127.0.0.1:{reached[number]}",
            }
            controllers[number] = Controller(
                directory / f"controller-{number}",
                {**own, **settings},
                port=port,
                java_options=java_options,
                start_timeout=START_SECONDS_MAX,
                kafka_release=release,
                format_options=formatted,
            )
        return cls(controllers, voters)

    @property
    def bootstrap(self) -> str:
        return ",".join(voter.partition("@")[2] for voter in self.voters.split(","))

    def start_all(self) -> None:
        """Start the controllers that do not run, together: the first waits for a majority."""
        resting = [number for number in self.controllers if number not in self.running]
        with ThreadPoolExecutor(len(self.controllers)) as threads:
            list(threads.map(self.start, resting))

    def start(self, number: int) -> None:
        self.controllers[number].start()
        self.running.append(number)

    def stop(self, number: int) -> None:
        self.controllers[number].stop()
        self.running.remove(number)

    def kill(self, number: int) -> None:
        self.controllers[number].kill()
        self.running.remove(number)

    def pause(self, number: int) -> None:
        """SIGSTOP."""
        self.controllers[number].pause()
        self.paused.append(number)

    def resume(self, number: int) -> None:
        """SIGCONT."""
        self.controllers[number].resume()
        self.paused.remove(number)

    def kill_all(self) -> None:
        for number in list(self.running):
            self.kill(number)

    def active(self) -> int:
        """Return the controller that leads in the newest epoch that any of them has stored; NONE if none does."""
        able = [number for number in self.running if number not in self.paused]
        stored = [self._stored(number) for number in able]
        leader = max(stored, default=(0, NONE))[1]
        return leader if leader in able else NONE

    def _stored(self, number: int) -> tuple[int, int]:
        """Return epoch and leader of a controller's `quorum-state`, which is replaced at each change."""
        file = self.controllers[number].data / "__cluster_metadata-0" / "quorum-state"
        try:
            state = json.loads(file.read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return 0, NONE
        return state["leaderEpoch"], state["leaderId"]

    def wait_for_active(self) -> int:
        wait_until(lambda: self.active() != NONE, WAIT_SECONDS_MAX)
        return self.active()
