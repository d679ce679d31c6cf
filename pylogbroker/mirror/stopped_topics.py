"""Topics that a mirror does not copy because of an error, until it tries them again."""

from __future__ import annotations

import attrs
from twisted.logger import Logger

from pylogbroker.mirror.errors import TopicStopped

log = Logger()


@attrs.define(eq=False, repr=False)
class StoppedTopics:
    _retry_seconds: float
    _errors: dict[str, tuple[TopicStopped, float]] = attrs.field(factory=dict)

    def __contains__(self, topic: str) -> bool:
        return topic in self._errors

    def add(self, error: TopicStopped, now: float) -> None:
        """Stop a topic, and log why, unless it is stopped for the same reason."""
        before = self._errors.get(error.topic)
        self._errors[error.topic] = error, now + self._retry_seconds
        if before is None or before[0].why != error.why:
            log.error("{error}", error=error)

    def end_waits(self, now: float) -> None:
        """Let topics be tried again whose time has come."""
        for topic in [topic for topic, (_, until) in self._errors.items() if until <= now]:
            del self._errors[topic]

    def reasons(self) -> dict[str, str]:
        return {topic: error.why for topic, (error, _) in self._errors.items()}
