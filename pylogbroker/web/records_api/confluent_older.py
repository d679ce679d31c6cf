"""Requests of versions 1 and 2 of Confluent's REST API: each is answered with the request that takes its place."""

from __future__ import annotations

import re
from typing import Final

from twisted.web.resource import Resource

from pylogbroker.web.records_api.calls import json_line
from pylogbroker.web.records_api.confluent import confluent_error
from pylogbroker.web.router.routes import JSON
from pylogbroker.web.site import CheckedRequest

_MEDIA: Final = re.compile(r"application/vnd\.kafka(\.[a-z]+)?(\.v[12])?\+json")
_READING: Final = ("GET", "HEAD")
_REASON: Final = (
    "versions 1 and 2 of Confluent's REST API are not served here: write by POST"
    " /v3/clusters/{cluster_id}/topics/{topic}/records or /api/topics/{topic}/records, and read by GET"
    " /api/topics/{topic}/records"
)


def is_older_confluent(request: CheckedRequest) -> bool:
    """Return whether a request has a media type of these versions, which nothing else has."""
    return any(_MEDIA.search(request.getHeader(name) or "") for name in ("content-type", "accept"))


class OlderConfluentResource(Resource):
    isLeaf = True

    def render(self, request: CheckedRequest) -> bytes:
        status = 406 if request.method.decode("ascii", "replace") in _READING else 415
        request.setResponseCode(status)
        request.setHeader(b"content-type", JSON.encode())
        return json_line(confluent_error({"error": _REASON, "status": status}))
