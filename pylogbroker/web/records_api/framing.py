"""Forms of events on connections that follow a topic: server-sent events here, messages in `websockets`."""

from __future__ import annotations

import json
from typing import Any, Final, Protocol


class FramedConnection(Protocol):
    """Connection as a framing sees it."""

    parser: Any
    """State of what reads the bytes of the client; None until the first ones come."""

    def write(self, data: bytes) -> None: ...
    def reply(self, data: bytes) -> None:
        """Send bytes unless others are pending."""

    def close(self) -> None: ...


class Framing(Protocol):
    """Form of events on a connection."""

    def opening(self, payload: bytes, positions: str) -> bytes:
        """Return what says where a follower begins, before there are records; `payload` is an event without any."""

    def frame(self, payload: bytes, positions: str) -> bytes:
        """Return an event; all followers with this framing share the bytes."""

    def note(self, kind: str, data: bytes, positions: str) -> bytes:
        """Return an event of another kind."""

    def ping(self) -> bytes: ...
    def ended(self, reason: str) -> bytes: ...
    def received(self, connection: FramedConnection, data: bytes) -> None:
        """Handle bytes of the client."""


class EventFraming:
    """Server-sent events, in a body that ends with the connection."""

    def opening(self, payload: bytes, positions: str) -> bytes:
        """Return an id alone, which browsers keep without an event: a reconnection begins there."""
        return b"id: %s\n\n" % positions.encode()

    def frame(self, payload: bytes, positions: str) -> bytes:
        return b"id: %s\ndata: %s\n\n" % (positions.encode(), payload)

    def note(self, kind: str, data: bytes, positions: str) -> bytes:
        return b"id: %s\nevent: %s\ndata: %s\n\n" % (positions.encode(), kind.encode(), data)

    def ping(self) -> bytes:
        return b":\n\n"

    def ended(self, reason: str) -> bytes:
        return b"event: ended\ndata: %s\n\n" % json.dumps({"error": reason}).encode()

    def received(self, connection: FramedConnection, data: bytes) -> None:
        """Ignore what the client sends: it has nothing to say."""


EVENT_FRAMING: Final = EventFraming()
