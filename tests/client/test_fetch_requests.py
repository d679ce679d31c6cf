"""Fetch requests without a session."""

from __future__ import annotations

from pylogbroker.client.fetch_requests import FetchTarget, fetch_request
from pylogbroker.client.settings import CONSUMER, read


def test_the_rack_is_left_out() -> None:
    """Else a broker may answer with the number of a nearer replica, and without records."""
    settings = read(CONSUMER, client_rack="here")
    request = fetch_request(settings, [FetchTarget("a", 0, 0, 100)], wait_ms=0)
    assert [(topic.topic, len(topic.partitions)) for topic in request.topics] == [("a", 1)]
    assert request.rack_id == ""
