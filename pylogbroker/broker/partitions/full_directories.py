"""Log directories whose disks are full.

| event                                           | the directory     |
|-------------------------------------------------|-------------------|
| a write fails: no space left, quota exceeded    | is full           |
| each second since, a probe of 1 MiB is written  | has space again   |
| the probe fails                                 | stays full        |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import attrs
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from pylogbroker.background import run_in_background
from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.storage import LogDirectory

log = Logger()
_PROBE_BYTES: Final = 1 << 20
_PROBE_SECONDS: Final = 1.0


@attrs.define(eq=False, repr=False)
class FullDirectories:
    _runtime: Runtime
    _directories: Iterable[LogDirectory]
    _reasons: dict[str, str] = attrs.field(factory=dict, init=False)
    _alarm: IDelayedCall | None = attrs.field(default=None, init=False)
    _is_stopped: bool = attrs.field(default=False, init=False)

    @property
    def reasons(self) -> Mapping[str, str]:
        """Why writes fail, by the path of the directory."""
        return self._reasons

    def note(self, path: str, reason: str) -> None:
        """Take a directory for full, until a probe succeeds."""
        self._reasons[path] = reason
        self._probe_later()

    def stop(self) -> None:
        self._is_stopped = True
        if self._alarm is not None and self._alarm.active():
            self._alarm.cancel()

    def _probe_later(self) -> None:
        if self._alarm is None and not self._is_stopped:
            self._alarm = self._runtime.clock.callLater(_PROBE_SECONDS, self._begin_probes)

    def _begin_probes(self) -> None:
        run_in_background(log, self._probe_all(), "full log directories are not probed any more")

    async def _probe_all(self) -> None:
        for directory in self._directories:
            if directory.path in self._reasons and (directory.failure or await self._has_space(directory)):
                del self._reasons[directory.path]
        self._alarm = None
        if self._reasons:
            self._probe_later()

    async def _has_space(self, directory: LogDirectory) -> bool:
        try:
            await self._runtime.in_thread(directory.probe, _PROBE_BYTES)
        except OSError:
            return False
        log.info("{directory} has space again", directory=directory.path)
        return True
