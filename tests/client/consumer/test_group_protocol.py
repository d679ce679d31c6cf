"""Settings that go with a group protocol, and those that have no effect with it."""

from __future__ import annotations

from typing import Any

import pytest

from pylogbroker.client import ConsumerConnector
from pylogbroker.errors import ConfigError


@pytest.mark.parametrize(
    ("settings", "cure"),
    [
        ({"group_protocol": "consumer", "session_timeout_ms": 6000}, "group.consumer.session.timeout.ms"),
        ({"group_protocol": "consumer", "heartbeat_interval_ms": 6000}, "group.consumer.heartbeat.interval.ms"),
        ({"group_protocol": "consumer", "assignor": "range"}, "group.remote.assignor"),
        (
            {"group_protocol": "consumer", "settings": {"partition.assignment.strategy": "range"}},
            "group.remote.assignor",
        ),
        ({"group_protocol": "consumer", "zookeeper_connect": "127.0.0.1:1"}, "leave one of both out"),
        ({"group_remote_assignor": "uniform"}, "partition.assignment.strategy"),
        ({"group_protocol": "new"}, "classic"),
    ],
)
def test_settings_without_effect_are_rejected(settings: dict[str, Any], cure: str) -> None:
    with pytest.raises(ConfigError, match=cure):
        ConsumerConnector("127.0.0.1:1", group="g", **settings)
