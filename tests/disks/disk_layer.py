"""Brokers whose disks are watched, held up or broken by a layer of their own (layer/sitecustomize.py)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import attrs

from tests.support.broker_process import BrokerProcess

LAYER = Path(__file__).with_name("layer")


@attrs.frozen
class Sync:
    """A sync that was begun, or done: how long the file was when it began."""

    done: bool
    call: str
    size: int
    path: str


@attrs.frozen
class DiskLayer:
    """Layer between a broker and its disks."""

    place: Path

    def broker(self, directory: Path, settings: Mapping[str, str]) -> BrokerProcess:
        """A broker on that layer, not yet started."""
        self.place.mkdir(exist_ok=True)
        environment = {"PYTHONPATH": str(LAYER), "DISK_LAYER": str(self.place)}
        return BrokerProcess(directory, settings, environment=environment)

    def syncs(self, path: Path) -> list[Sync]:
        """The syncs of a file so far."""
        lines = (line.split(" ", 3) for line in (self.place / "journal").read_text().splitlines())
        found = [Sync(when == "end", call, int(size), path) for when, call, size, path in lines]
        return [sync for sync in found if sync.path == str(path.resolve())]

    def synced(self, path: Path) -> int:
        """Return the number of bytes of a file that are on the disk."""
        return max((sync.size for sync in self.syncs(path) if sync.done), default=0)

    def hold(self) -> None:
        """Let syncs wait from now on."""
        (self.place / "hold").touch()

    def release(self) -> None:
        """Let them go on."""
        (self.place / "hold").unlink()

    def fail(self, call: str, number: int, below: Path) -> None:
        """Let a call of the operating system fail for open files below a directory."""
        (self.place / "faults").write_text(f"{call} {number} {below.resolve()}\n")

    def mend(self) -> None:
        """Nothing fails any more."""
        (self.place / "faults").unlink()
