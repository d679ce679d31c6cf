"""Subscriptions of streams: topics with numbers of streams, or a filter, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from pylogbroker.client import Whitelist
from pylogbroker.client.consumer.stream_subscription import StreamSubscription
from pylogbroker.client.consumer.streams import Stream
from pylogbroker.errors import ConfigError


def no_stream() -> Stream:
    pytest.fail("a stream was made")


@pytest.mark.parametrize("topics", ["orders", ["orders"], {b"orders": 1}, {None: 1}, None, 5])
def test_invalid_topics_are_rejected(topics: Any) -> None:
    with pytest.raises(ConfigError, match="expected topics with their numbers of streams"):
        StreamSubscription.to_topics(topics, no_stream)


def test_no_topics() -> None:
    with pytest.raises(ConfigError, match="no topics are given"):
        StreamSubscription.to_topics({}, no_stream)


@pytest.mark.parametrize("topics", ["orders.*", {"orders": 1}, None])
def test_invalid_filters_are_rejected(topics: Any) -> None:
    with pytest.raises(ConfigError, match="expected a Whitelist or a Blacklist"):
        StreamSubscription.to_filter(topics, 1, no_stream)


@pytest.mark.parametrize("count", [0, -1, "1", 1.5, None])
def test_invalid_stream_counts_are_rejected(count: Any) -> None:
    with pytest.raises(ConfigError, match="expected 1 or more"):
        StreamSubscription.to_topics({"orders": count}, no_stream)
    with pytest.raises(ConfigError, match="expected 1 or more"):
        StreamSubscription.to_filter(Whitelist("orders"), count, no_stream)
