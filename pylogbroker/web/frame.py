"""Frame of each page: the cluster, the places with their counts, the zone of times, the principal."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

import attrs
from twisted.web.server import Request

from pylogbroker import __version__
from pylogbroker.broker.services import Services
from pylogbroker.mirror_records.formats import HEARTBEATS_TOPIC
from pylogbroker.security.acls.bindings import CLUSTER_NAME, AclOperation, AclResourceType
from pylogbroker.web.problem_search import problems_for
from pylogbroker.web.texts import Page, answer_text
from pylogbroker.web.visitors import Visitor

_ZONE_COOKIE: Final = b"times"
_LOCAL: Final = b"local"
_PLACES: Final = (
    ("Overview", "/", ("",)),
    ("Topics", "/topics", ("topics", "create-topic")),
    ("Groups", "/groups", ("groups",)),
    ("Transactions", "/transactions", ("transactions",)),
    ("Mirrors", "/mirrors", ("mirrors",)),
    ("Schemas", "/schemas", ("schemas",)),
    ("Brokers", "/brokers", ("brokers",)),
    ("Access", "/access/users", ("access",)),
    ("Faults", "/faults", ("faults",)),
    ("Style", "/style", ("style",)),
)
"""Name, address, and the first parts of the paths that belong to a place."""
_BEGIN_PARTS: Final = ("Brokers", "Style")


@attrs.frozen
class Place:
    name: str
    path: str
    count: str
    is_current: bool
    begins_part: bool
    is_alarm: bool = False


@attrs.frozen
class Frame:
    """Values of a page's frame; without `visitor`, of one who is not let in, it has no counts.

    The figures of a page that `is_live` are sent as they change.
    """

    path: str
    is_local: bool
    places: tuple[Place, ...]
    cluster: str = ""
    principal: str = ""
    is_live: bool = False
    version: str = __version__


def frame_of(request: Request, visitor: Visitor | None, has_faults: bool, is_live: bool = False) -> Frame:
    path = request.uri.decode("ascii", "replace")
    counts = {} if visitor is None else _counts(visitor)
    first = path.partition("?")[0].removeprefix("/").partition("/")[0]
    absent = set() if has_faults else {"Faults"}
    if visitor is None or HEARTBEATS_TOPIC not in visitor.services.metadata.topics:
        absent.add("Mirrors")
    if visitor is None or visitor.schemas is None or visitor.schemas.browser is None:
        absent.add("Schemas")
    places = tuple(
        Place(name, address, counts.get(name, ""), first in parts, name in _BEGIN_PARTS, name == "Overview")
        for name, address, parts in _PLACES
        if name not in absent
    )
    if visitor is None:
        return Frame(path, is_local(request), places)
    return Frame(path, is_local(request), places, visitor.services.node.cluster_id, visitor.principal, is_live)


def is_local(request: Request) -> bool:
    """Return whether times are to be those of this machine's zone: the browser is on this machine."""
    cookie: bytes | None = request.getCookie(_ZONE_COOKIE)
    return cookie == _LOCAL


def _counts(visitor: Visitor) -> dict[str, str]:
    """Return numbers that cost nothing, for visitors who may describe the cluster."""
    services: Services = visitor.services
    if not visitor.allows(AclOperation.DESCRIBE, AclResourceType.CLUSTER, CLUSTER_NAME):
        return {}
    counts = {"Topics": len(services.metadata.topics), "Brokers": len(services.metadata.image.brokers)}
    if counts["Brokers"] == 1:
        counts["Groups"] = services.groups.count_groups()
    problems = len(problems_for(visitor))
    if problems:
        counts["Overview"] = problems
    return {name: f"{count:,}" for name, count in counts.items()}


class TimesPage(Page):
    """Remembers the zone of times, and leads back."""

    def render_GET(self, request: Request) -> bytes | int:
        given = request.args or {}
        zone, back = given.get(b"zone", [b""])[-1], given.get(b"back", [b"/"])[-1].decode("ascii", "replace")
        parts = urlsplit(back)
        is_here = back.startswith("/") and not parts.netloc and "\\" not in back  # which browsers take for a slash
        if not is_here or zone not in (_LOCAL, b"utc"):
            return answer_text(request, "zone is local or utc, and back a page here", 400)
        request.addCookie(_ZONE_COOKIE, zone, path=b"/", max_age=b"31536000", sameSite=b"lax")
        request.setResponseCode(303)
        request.setHeader(b"location", back.encode())
        return b""
