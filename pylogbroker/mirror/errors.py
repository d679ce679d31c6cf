"""Errors of mirrors."""

from __future__ import annotations

from pylogbroker.errors import PylogbrokerError


class MirrorError(PylogbrokerError):
    """A mirror cannot work as it is configured; the text has the cause and the cure."""


class TopicStopped(MirrorError):
    """One topic is not mirrored; the others are."""

    def __init__(self, topic: str, why: str) -> None:
        super().__init__(f"topic {topic} is not mirrored: {why}")
        self.topic = topic
        self.why = why


class RecordsRejected(TopicStopped):
    """The target rejected records for good."""
