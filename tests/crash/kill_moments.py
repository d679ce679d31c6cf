"""Moments at which the broker is killed.

| moment       | the broker dies                                                                     |
|--------------|-------------------------------------------------------------------------------------|
| any time     | within a second after its start                                                     |
| late         | some seconds after it, so that groups can form, which takes them long              |
| ack          | in the callback of the first acknowledgement that comes after a while               |
| commit       | as soon as a group's commit was acknowledged                                        |
| write        | as soon as a log has grown: what was written last is not acknowledged yet, mostly  |
| roll         | as soon as a new segment's file appears                                             |
| stop         | a few milliseconds after SIGTERM, in the middle of its flush                        |
| start        | within the time that its starts take, before or just after it listens; several times |
| cleaning     | as soon as a file of a log that is being compacted appears                          |

While a topic is archived, besides:

| file         | as soon as a file of the archive appears, gets its name, or goes                    |
| deletion     | as soon as the first segment of a log goes                                           |

While members of a share group work, besides:

| member       | at a commit some seconds after the start                                           |

While copiers work, besides:

| ending       | when one of them has sent its transaction and is about to commit it                 |
| copier       | as soon as one of them was killed                                                   |
| decision     | as soon as a transaction's state was stored, so before what follows from it, mostly |
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import attrs

from tests.crash.killed_broker import KilledBroker
from tests.support.waiting import wait_until

_LONGEST: Final = 1.0  # seconds that an event is waited for
_JOB_SECONDS_MAX: Final = 20.0


@attrs.define
class EventWaiter:
    """Kills at an event, from the thread of the client that met it, once the trap is set for it."""

    _strike: Callable[[], None]
    _wanted: str = ""
    _sprung: threading.Event = attrs.field(factory=threading.Event)

    def set_for(self, event: str) -> None:
        self._sprung.clear()
        self._wanted = event

    def met(self, event: str) -> None:
        """A client met `event`."""
        if event == self._wanted:
            self._wanted = ""
            self._strike()
            self._sprung.set()

    def wait(self, seconds: float) -> bool:
        """True if the trap was sprung in this time; it is not set any more."""
        sprung = self._sprung.wait(seconds)
        if not sprung:
            self._wanted = ""
        return sprung


@attrs.define
class KillContext:
    """Values that a moment depends on."""

    victim: KilledBroker
    trap: EventWaiter
    chance: random.Random
    over: Callable[[], None]  # what is done when a life is over


Moment = Callable[[KillContext], None]


def _pause(scene: KillContext, seconds_max: float) -> None:
    time.sleep(scene.chance.uniform(0, seconds_max))


def any_time(scene: KillContext) -> None:
    _pause(scene, _LONGEST * 0.6)
    scene.victim.strike()


def late(scene: KillContext) -> None:
    _work_on(scene)
    scene.victim.strike()


def _work_on(scene: KillContext) -> None:
    time.sleep(scene.chance.uniform(1, 4))


def member(scene: KillContext) -> None:
    _work_on(scene)
    _at_event("commit")(scene)


def _at_event(event: str) -> Moment:
    def strike(scene: KillContext) -> None:
        _pause(scene, 0.2)
        scene.trap.set_for(event)
        if not scene.trap.wait(_LONGEST):
            scene.victim.strike()

    return strike


def write(scene: KillContext) -> None:
    _pause(scene, 0.3)
    path = max(Path(scene.chance.choice(_logs(scene.victim))).glob("*.kafka"))
    before, deadline = _size(path), time.monotonic() + _LONGEST
    while _size(path) == before and time.monotonic() < deadline:
        time.sleep(0.0001)
    scene.victim.strike()


def roll(scene: KillContext) -> None:
    _pause(scene, 0.1)
    before = _segments(scene.victim)
    deadline = time.monotonic() + _LONGEST
    while _segments(scene.victim) <= before and time.monotonic() < deadline:
        time.sleep(0.0005)
    scene.victim.strike()


def cleaning(scene: KillContext) -> None:
    _pause(scene, 0.3)
    names = scene.chance.choice(("cleaned-segments", "cleaned"))  # the first is there while segments are exchanged
    before = _being_cleaned(scene.victim, names)
    deadline = time.monotonic() + _LONGEST
    while _being_cleaned(scene.victim, names) <= before and time.monotonic() < deadline:
        continue
    scene.victim.strike()


def _being_cleaned(victim: KilledBroker, names: str) -> set[str]:
    return {f"{path}/{name}" for path in _logs(victim) for name in os.listdir(path) if names in name}


def archive_file(archive: Path) -> Moment:
    """Return the moment at which a file of an archive appears, gets its name, or goes."""

    def names() -> set[str]:
        return {str(path) for path in archive.rglob("*.parquet*")}

    return partial(_at_change, names)


def deletion(scene: KillContext) -> None:
    _at_change(lambda: {str(min(Path(path).glob("*.kafka"))) for path in _logs(scene.victim)}, scene)


def _at_change(names: Callable[[], set[str]], scene: KillContext) -> None:
    """Kill as soon as there are other files; a job of an archive takes seconds on a busy machine."""
    _pause(scene, 0.5)
    before = names()
    with suppress(TimeoutError):
        wait_until(lambda: names() != before, _JOB_SECONDS_MAX, meanwhile=partial(time.sleep, 0.001))
    scene.victim.strike()


def decision(scene: KillContext) -> None:
    _pause(scene, 0.3)
    files = [max(Path(path).glob("*.kafka")) for path in _logs(scene.victim) if "__transaction_state_" in path]
    before, deadline = [_size(file) for file in files], time.monotonic() + _LONGEST
    while [_size(file) for file in files] == before and time.monotonic() < deadline:
        continue
    scene.victim.strike()


def _size(path: Path) -> int:
    """Return the size of a segment's file; 0 if compaction has deleted it."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return -1


def _segments(victim: KilledBroker) -> int:
    """Return the number of segments of all partitions."""
    return sum(name.endswith(".kafka") for path in _logs(victim) for name in os.listdir(path))


def _logs(victim: KilledBroker) -> list[str]:
    """Return the directories of all partitions."""
    return [entry.path for entry in os.scandir(victim.data_dir) if entry.is_dir() and "_" in entry.name]


def stop(scene: KillContext) -> None:
    _pause(scene, 0.3)
    scene.victim.process.signal(signal.SIGTERM)
    _pause(scene, 0.25)
    if scene.victim.process.running:
        scene.victim.strike()


def start(scene: KillContext) -> None:
    """Kill at any time: the next starts are not let finish either."""
    any_time(scene)
    for _ in range(scene.chance.randrange(1, 4)):
        scene.over()
        scene.victim.launch()
        time.sleep(scene.chance.uniform(0.1, max(scene.victim.slowest_start, 0.3) * 1.2))
        scene.victim.strike()


MOMENTS: Final[Mapping[str, Moment]] = {
    "any time": any_time,
    "late": late,
    "ack": _at_event("ack"),
    "commit": _at_event("commit"),
    "write": write,
    "roll": roll,
    "stop": stop,
    "start": start,
}
CLEANING: Final = {"cleaning": cleaning}
SHARING: Final = {"member": member}
COPIERS: Final = {"ending": _at_event("ending"), "copier": _at_event("copier"), "decision": decision}
