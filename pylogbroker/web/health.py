"""Health checks, for Kubernetes, systemd, load balancers.

/livez     200 while the reactor answers
/readyz    200 if clients can use the broker, else 503 and the reasons, one in a line
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import attrs
from twisted.web.resource import Resource
from twisted.web.server import Request

from pylogbroker.web.texts import Page, answer_text

STARTING = "the start is not over"
STOPPING = "the broker is stopping"


@attrs.define(eq=False, repr=False)
class Readiness:
    """Reasons why clients cannot use the broker: the stage of its life, then what `check` finds."""

    stage: str = STARTING
    check: Callable[[], Iterable[str]] = tuple

    def reasons(self) -> list[str]:
        return [self.stage] if self.stage else list(self.check())


class Livez(Page):
    def render_GET(self, request: Request) -> bytes | int:
        return answer_text(request, "alive")


class Readyz(Page):
    def __init__(self, readiness: Readiness) -> None:
        super().__init__()
        self._readiness = readiness

    def render_GET(self, request: Request) -> bytes | int:
        reasons = self._readiness.reasons()
        return answer_text(request, "\n".join(reasons), 503) if reasons else answer_text(request, "ready")


def put_health(root: Resource, readiness: Readiness) -> None:
    root.putChild(b"livez", Livez())
    for name in (b"readyz", b"healthz"):
        root.putChild(name, Readyz(readiness))
