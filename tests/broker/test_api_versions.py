"""ApiVersions: the ranges, for requests of any version."""

from __future__ import annotations

from tempfile import TemporaryDirectory
from typing import Any, Final
from unittest.mock import patch

from pylogbroker.broker.apis import APIS, api_versions
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.errors import ErrorCode
from pylogbroker.metadata.feature_levels import SUPPORTED_LEVELS, LevelRange
from pylogbroker.wire import codec
from pylogbroker.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse, FinalizedFeatureKey
from pylogbroker.wire.messages.leader_and_isr import LeaderAndIsrRequest
from tests.broker.nodes import NodeTests, opened_node

SWITCHED_OFF: Final = frozenset(
    {"ConsumerGroupHeartbeat", "ConsumerGroupDescribe", "GetTelemetrySubscriptions", "PushTelemetry"}
)
"""APIs of consumer groups, which `group.coordinator.rebalance.protocols` has to name."""


class ApiVersionsTests(NodeTests):
    def ask(self, version: int, name: str = "a-client", software: str = "1.2.3") -> Any:
        return self.node.ask(api_versions.handle, ApiVersionsRequest(name, software), version)

    def test_a_cluster_with_kafka_3_9_has_no_features(self) -> None:
        """Apache Kafka 3.9 in ZooKeeper mode sends an epoch, and neither supported nor finalized features."""
        with opened_node((self.enterContext(TemporaryDirectory()),), {"api.versions.release": "3.9"}) as node:
            response = node.ask(api_versions.handle, ApiVersionsRequest("a", "1"), 4)
            self.assertEqual(self.ranges(response)[0], (0, 11))
        self.assertEqual(response.finalized_features_epoch, 0)
        self.assertEqual((response.supported_features, response.finalized_features), ([], []))

    def ranges(self, response: Any) -> dict[int, tuple[int, int]]:
        return {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}

    def test_every_version_reports_the_ranges(self) -> None:
        declared = {
            api.key: (api.versions.first, api.versions.last)
            for api in APIS
            if not api.cluster_only and api.name not in SWITCHED_OFF
        }
        self.assertNotIn(LeaderAndIsrRequest.api_key, declared)
        for version in range(6):
            response = self.ask(version)
            self.assertEqual((response.error_code, response.throttle_time_ms), (ErrorCode.NONE, 0))
            self.assertEqual(self.ranges(response), declared)

    def test_features_are_at_their_newest_levels(self) -> None:
        with patch.dict(SUPPORTED_LEVELS, {"lights": LevelRange(0, 2)}):
            for version in range(6):
                response = self.ask(version)
                self.assertEqual(response.finalized_features_epoch, 0 if version >= 3 else -1)
                supported = {key.name: (key.min_version, key.max_version) for key in response.supported_features}
                lights = {"lights": (0, 2)} if version >= 4 else {}  # older clients take level 0 for an error
                self.assertEqual(supported, {"metadata.version": (7, 33)} | lights if version >= 3 else {})
                finalized = [FinalizedFeatureKey("metadata.version", 33, 33)] if version >= 3 else []
                self.assertEqual(response.finalized_features, finalized)

    def test_clients_name_themselves_decently(self) -> None:
        for name, software in (("a b", "1"), ("", "1"), ("a", ""), ("-a", "1"), ("a", "1."), ("a\n", "1")):
            for version in (3, 4):
                response = self.ask(version, name, software)
                self.assertEqual((response.error_code, response.api_keys), (ErrorCode.INVALID_REQUEST, []))
            for version in (0, 1, 2):  # which carry no name
                self.assertEqual(self.ask(version, name, software).error_code, ErrorCode.NONE)
        for name in ("a", "librdkafka", "apache-kafka-java", "a.b-c9"):
            self.assertEqual(self.ask(3, name, "2.6.0-rc1").error_code, ErrorCode.NONE)

    def test_a_client_that_means_another_node_has_to_bootstrap_again(self) -> None:
        """Both names are needed for a check; so does Kafka 4.4."""
        cluster, node = self.node.broker.node.cluster_id, self.node.broker.node.id
        for given, error in {
            (None, -1): 0,
            (cluster, node): 0,
            (cluster, node + 1): 129,
            ("another", node): 129,
            ("", node): 129,
            (cluster, -1): 42,
            (None, node): 42,
        }.items():
            request = ApiVersionsRequest("a", "1", *given)
            response = self.node.ask(api_versions.handle, request, 5)
            self.assertEqual((response.error_code, bool(response.api_keys)), (error, not error), given)
            self.assertEqual(self.node.ask(api_versions.handle, request, 4).error_code, 0)

    def test_a_version_that_is_not_known(self) -> None:
        response = api_versions.unsupported(self.node.broker, RequestContext(99), None)
        found = codec(ApiVersionsResponse, 0).decode(codec(ApiVersionsResponse, 0).encode(response))
        self.assertEqual(found.error_code, ErrorCode.UNSUPPORTED_VERSION)
        self.assertEqual(self.ranges(found)[18], (0, 5))
