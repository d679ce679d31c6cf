"""Client telemetry: subscriptions, pushes that are accepted and rejected, and receivers that fail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import UUID

import cramjam
import pytest

from pylogbroker.broker.apis import get_telemetry_subscriptions, push_telemetry
from pylogbroker.config import BrokerConfig
from pylogbroker.errors import ConfigError, ErrorCode
from pylogbroker.tap.plugins import telemetry_receivers
from pylogbroker.wire.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from pylogbroker.wire.messages.push_telemetry import PushTelemetryRequest
from pylogbroker.wire.schema import NO_ID
from tests.broker.log_lines import logged_lines
from tests.broker.nodes import Node, opened_node
from tests.support.plugin_modules import plugin_modules

ID = UUID(int=5)
ONE = UUID(int=1)
RECEIVERS = """
from twisted.plugin import IPlugin
from zope.interface import implementer
from pylogbroker.interfaces import IClientTelemetryReceiver

@implementer(IPlugin, IClientTelemetryReceiver)
class Receiver:
    def __init__(self, name, prefixes, interval_ms):
        self.name, self.metric_prefixes, self.interval_ms, self.received = name, prefixes, interval_ms, []

    def receive(self, telemetry):
        self.received.append(telemetry)
        if telemetry.metrics == b"bad":
            raise ValueError("cannot be decoded")

producers = Receiver("producers", ("org.apache.kafka.producer.",), 60_000)
consumers = Receiver("consumers", ("org.apache.kafka.consumer.",), 30_000)
everything = Receiver("everything", ("", "x"), 100)
hasty = Receiver("hasty", ("",), 99)
text = Receiver("text", "org.", 1000)
"""


@pytest.fixture
def receivers(tmp_path: Path) -> Iterator[None]:
    with plugin_modules(tmp_path) as put:
        put("telemetry_receivers", RECEIVERS)
        yield


@pytest.fixture
def node(receivers: None) -> Iterator[Node]:
    settings = {"client.telemetry.receivers": "producers,consumers", "telemetry.max.bytes": "1000"}
    with TemporaryDirectory() as directory, opened_node((directory,), settings) as opened:
        yield opened


def subscribe(node: Node, instance_id: UUID = NO_ID) -> GetTelemetrySubscriptionsResponse:
    answer: GetTelemetrySubscriptionsResponse = node.ask(
        get_telemetry_subscriptions.handle, GetTelemetrySubscriptionsRequest(instance_id)
    )
    return answer


def push(
    node: Node,
    subscription_id: int,
    metrics: bytes = b"m",
    codec: int = 0,
    instance_id: UUID = ID,
    terminating: bool = False,
) -> ErrorCode:
    request = PushTelemetryRequest(instance_id, subscription_id, terminating, codec, metrics)
    return ErrorCode(node.ask(push_telemetry.handle, request, host="10.1.2.3").error_code)


def received(name: str) -> list[bytes]:
    config = BrokerConfig({"client.telemetry.receivers": name})
    [receiver] = telemetry_receivers(config)
    return [telemetry.metrics for telemetry in receiver.received]  # type: ignore[attr-defined]


def test_subscription_is_what_all_receivers_want(node: Node) -> None:
    answer = subscribe(node)
    assert answer.client_instance_id not in (NO_ID, subscribe(node).client_instance_id)
    assert answer.requested_metrics == ["org.apache.kafka.consumer.", "org.apache.kafka.producer."]
    assert (answer.push_interval_ms, answer.telemetry_max_bytes) == (30_000, 1000)
    assert answer.accepted_compression_types == [4, 3, 1, 2]


def test_metrics_reach_all_receivers(node: Node) -> None:
    subscription_id = subscribe(node, ID).subscription_id
    data = bytes(cramjam.zstd.compress(b"m" * 2000))
    assert push(node, subscription_id, data, 4) is ErrorCode.NONE
    assert received("producers") == received("consumers") == [b"m" * 2000]
    [receiver] = telemetry_receivers(BrokerConfig({"client.telemetry.receivers": "consumers"}))
    [telemetry] = receiver.received  # type: ignore[attr-defined]
    assert (telemetry.instance_id, telemetry.host, telemetry.principal) == (ID, "10.1.2.3", "User:ANONYMOUS")
    assert (telemetry.received_ms, telemetry.is_last) == (node.broker.runtime.now_ms(), False)


def test_clients_wait_for_the_interval(node: Node) -> None:
    subscription_id = subscribe(node, ID).subscription_id
    assert subscribe(node, ID).error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert push(node, subscription_id) is ErrorCode.NONE
    node.clock.advance(29.5)
    assert push(node, subscription_id) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    node.clock.advance(0.5)
    assert push(node, subscription_id) is ErrorCode.NONE
    assert push(node, subscription_id, terminating=True) is ErrorCode.NONE
    node.clock.advance(60)
    assert push(node, subscription_id) is ErrorCode.INVALID_REQUEST
    assert len(received("producers")) == 3


def test_client_of_an_unknown_subscription_may_ask_at_once(node: Node) -> None:
    subscription_id = subscribe(node, ID).subscription_id
    assert push(node, subscription_id + 1) is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    answer = subscribe(node, ID)
    assert (answer.error_code, answer.subscription_id) == (0, subscription_id)
    assert answer.client_instance_id == NO_ID  # it has one
    assert push(node, subscription_id) is ErrorCode.NONE
    assert subscribe(node, ONE).subscription_id != subscription_id


@pytest.mark.parametrize(
    ("metrics", "codec", "error"),
    [
        (b"m" * 1001, 0, ErrorCode.TELEMETRY_TOO_LARGE),
        (b"m", 5, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (b"m", -1, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (b"m", 4, ErrorCode.INVALID_RECORD),
        (b"", 4, ErrorCode.NONE),
        (bytes(cramjam.zstd.compress(b"m" * 16_000)), 4, ErrorCode.NONE),
        (bytes(cramjam.zstd.compress(b"m" * 16_001)), 4, ErrorCode.INVALID_RECORD),
        (bytes(cramjam.gzip.compress(b"m" * 16_001)), 1, ErrorCode.INVALID_RECORD),
    ],
    ids=str,
)
def test_metrics_are_checked(node: Node, metrics: bytes, codec: int, error: ErrorCode) -> None:
    subscription_id = subscribe(node, ID).subscription_id
    assert push(node, subscription_id, metrics, codec) is error
    assert len(received("producers")) == (error is ErrorCode.NONE and metrics != b"")


def test_push_needs_an_instance(node: Node) -> None:
    assert push(node, 0, instance_id=NO_ID) is ErrorCode.INVALID_REQUEST


def test_receiver_that_fails_disturbs_nobody(node: Node) -> None:
    subscription_id = subscribe(node, ID).subscription_id
    with logged_lines() as lines:
        assert push(node, subscription_id, b"bad") is ErrorCode.NONE
        node.clock.advance(30)
        assert push(node, subscription_id, b"bad") is ErrorCode.NONE
    assert received("producers") == received("consumers") == [b"bad", b"bad"]
    assert lines == [
        f"the client telemetry receiver {name} failed with metrics of client '' at 10.1.2.3: "
        "ValueError('cannot be decoded')"
        for name in ("producers", "consumers")
    ]


def test_clients_are_not_remembered_without_end(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pylogbroker.broker.requests.client_telemetry._INSTANCES_MAX", 2)
    subscription_id = subscribe(node, ID).subscription_id
    subscribe(node)
    assert push(node, subscription_id) is ErrorCode.NONE  # used again
    subscribe(node)
    assert push(node, subscription_id) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    subscribe(node)
    subscribe(node)
    assert push(node, subscription_id) is ErrorCode.NONE  # unknown, as after a restart


def test_telemetry_is_not_offered_without_a_receiver(receivers: None) -> None:
    with TemporaryDirectory() as directory, opened_node((directory,)) as plain:
        assert not {api.key for api in plain.broker.apis} & {71, 72}


def test_receivers_are_checked_at_the_start(receivers: None) -> None:
    for name, why in {
        "nobody": "expected any of consumers, everything, hasty, producers, text; no others are installed",
        "hasty": "its interval_ms is 99; expected 100 to 3600000",
        "text": "its metric_prefixes are 'org.'; expected a tuple of texts",
    }.items():
        with pytest.raises(ConfigError, match=why):
            telemetry_receivers(BrokerConfig({"client.telemetry.receivers": f"producers,{name}"}))


def test_without_installed_receivers_the_error_says_so() -> None:
    with pytest.raises(ConfigError, match="expected any of ; no others are installed"):
        telemetry_receivers(BrokerConfig({"client.telemetry.receivers": "producers"}))


def test_one_receiver_may_want_all_metrics(receivers: None) -> None:
    settings = {"client.telemetry.receivers": "producers,everything"}
    with TemporaryDirectory() as directory, opened_node((directory,), settings) as opened:
        answer = subscribe(opened)
    assert (answer.requested_metrics, answer.push_interval_ms) == ([""], 100)
