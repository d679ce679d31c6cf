"""Log lines about archived topics with replicas on a broker that has no remote storage."""

from __future__ import annotations

import attrs
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from pylogbroker.formatting import listed

log = Logger()


@attrs.define(eq=False, repr=False)
class MissingArchives:
    """Logs each topic once. Topics that are opened or configured together share a line."""

    _clock: IReactorTime
    _logged: set[str] = attrs.field(factory=set, init=False)
    _new: list[str] = attrs.field(factory=list, init=False)

    def note(self, topic: str, *, is_archived: bool) -> None:
        if not is_archived:
            self._logged.discard(topic)
        elif topic not in self._logged:
            self._logged.add(topic)
            if not self._new:
                self._clock.callLater(0, self._log_new)
            self._new.append(topic)

    def _log_new(self) -> None:
        topics, self._new = self._new, []
        log.error(
            "archived, but this broker has no remote storage: {topics}. Nothing of them is deleted from its disk, "
            "archived records cannot be read here, and a new replica stays out of sync. Set "
            "remote.log.storage.system.enable=true and the remote.log.storage of the other brokers, or move the "
            "replicas to brokers that have it: pylogbroker reassign",
            topics=listed(sorted(topics)),
        )
