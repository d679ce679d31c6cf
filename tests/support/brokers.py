"""Common interface of the brokers that tests run against: ours, Apache Kafka, or one at an address."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from tests.peers.kafka import KafkaBroker, KafkaServer
from tests.peers.processes import QUICK
from tests.support.broker_process import QUICK_SETTINGS

#: Releases of Apache Kafka, as `--against` calls them.
KAFKA_RELEASES: Mapping[str, str] = {"kafka": "kafka-3.9", "kafka4": "kafka-4.4"}


class Broker(Protocol):
    """A broker that has been, or can be, started."""

    #: the end of a segment's file name
    segment_suffix: str

    @property
    def bootstrap(self) -> str:
        """HOST:PORT, the same after a restart."""

    def start(self) -> None:
        """Returns when clients can connect."""

    def stop(self) -> int:
        """A clean stop by SIGTERM; the exit status."""

    def kill(self) -> None:
        """SIGKILL."""

    def partition_dir(self, topic: str, partition: int) -> Path:
        """Directory of a partition."""

    def unexpected_errors(self) -> list[str]:
        """Return the unexpected errors that it logged since its last start."""


class KafkaProcess:
    """Apache Kafka, started from tests/peers."""

    segment_suffix = ".log"

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, str] | None = None,
        prefix: Sequence[str] = (),
        release: str = "kafka-3.9",
    ) -> None:
        self._kafka: KafkaServer = KafkaBroker(
            directory,
            {**QUICK_SETTINGS, **(settings or {})},
            java_options=(*QUICK, "-Xmx512M"),
            prefix=prefix,
            kafka_release=release,
        )

    @property
    def bootstrap(self) -> str:
        return self._kafka.address

    @property
    def data_dir(self) -> Path:
        return self._kafka.data

    def start(self) -> None:
        self._kafka.start()

    def stop(self) -> int:
        process = self._kafka.process
        self._kafka.stop()
        return 0 if process is None or process.returncode in (0, 143) else process.returncode

    def kill(self) -> None:
        self._kafka.kill()

    def partition_dir(self, topic: str, partition: int) -> Path:
        return self._kafka.data / f"{topic}-{partition}"

    def unexpected_errors(self) -> list[str]:
        return []


class ExternalBroker:
    """A broker that somebody else runs."""

    segment_suffix = ""

    def __init__(self, address: str) -> None:
        self.bootstrap = address

    def start(self) -> None:
        """Do nothing: the broker runs already."""

    def stop(self) -> int:
        raise NotImplementedError("not ours to stop")

    def kill(self) -> None:
        """Do nothing: the broker stays."""

    def partition_dir(self, topic: str, partition: int) -> Path:
        raise NotImplementedError("its files are not known")

    def unexpected_errors(self) -> list[str]:
        return []
