"""ApiVersions: the ranges, for requests of any version."""

from __future__ import annotations

from tempfile import TemporaryDirectory
from typing import Any, Final
from unittest.mock import patch

from pylogbroker.broker.apis import APIS, api_versions
from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.errors import ErrorCode
from pylogbroker.metadata.feature_levels import SUPPORTED_LEVELS, LevelChange, LevelRange
from pylogbroker.wire import codec
from pylogbroker.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse, FinalizedFeatureKey
from pylogbroker.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from pylogbroker.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from pylogbroker.wire.messages.leader_and_isr import LeaderAndIsrRequest
from tests.broker.nodes import Node, NodeTests, opened_node
from tests.broker.trees import now

OF_CONSUMER_GROUPS: Final = frozenset({68, 69})
"""Keys of APIs that the feature group.version switches."""
OF_TELEMETRY: Final = frozenset({71, 72})
"""Keys of APIs that need a receiver."""


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
            if not api.cluster_only and api.key not in OF_TELEMETRY
        }
        self.assertNotIn(LeaderAndIsrRequest.api_key, declared)
        for version in range(6):
            response = self.ask(version)
            self.assertEqual((response.error_code, response.throttle_time_ms), (ErrorCode.NONE, 0))
            self.assertEqual(self.ranges(response), declared)

    def test_features_are_at_their_newest_levels(self) -> None:
        levels = {"metadata.version": LevelRange(7, 33), "lights": LevelRange(0, 2)}
        directories = (self.enterContext(TemporaryDirectory()),)
        with patch.dict(SUPPORTED_LEVELS, levels, clear=True), opened_node(directories) as node:
            for version in range(6):
                response = node.ask(api_versions.handle, ApiVersionsRequest("a", "1"), version)
                self.assertEqual(response.finalized_features_epoch, 0 if version >= 3 else -1)
                supported = {key.name: (key.min_version, key.max_version) for key in response.supported_features}
                lights = {"lights": (0, 2)} if version >= 4 else {}  # older clients take level 0 for an error
                self.assertEqual(supported, {"metadata.version": (7, 33)} | lights if version >= 3 else {})
                finalized = [FinalizedFeatureKey("metadata.version", 33, 33), FinalizedFeatureKey("lights", 2, 2)]
                self.assertEqual(response.finalized_features, finalized if version >= 3 else [])

    def offers_consumer_groups(self, node: Node) -> bool:
        """Return whether a client that asks now sees the APIs of consumer groups; those that it sees are served."""
        keys = {api.api_key for api in node.ask(api_versions.handle, ApiVersionsRequest("a", "1"), 4).api_keys}
        is_offered = keys >= OF_CONSUMER_GROUPS
        self.assertTrue(is_offered or not keys & OF_CONSUMER_GROUPS)
        error = ErrorCode.NONE if is_offered else ErrorCode.UNSUPPORTED_VERSION
        beat, describe = (next(api for api in node.broker.apis if api.key == key) for key in (68, 69))
        answer = node.ask(beat.handle, ConsumerGroupHeartbeatRequest("g", "m", -1), 1)
        self.assertEqual(answer.error_code, error or ErrorCode.NOT_COORDINATOR)
        [group] = node.ask(describe.handle, ConsumerGroupDescribeRequest(["g"]), 1).groups
        self.assertEqual((group.group_id, group.error_code), ("g", error or ErrorCode.NOT_COORDINATOR))
        return is_offered

    def test_apis_of_a_feature_follow_its_level(self) -> None:
        self.assertTrue(self.offers_consumer_groups(self.node))
        for level, upgrade_type in ((0, 2), (1, 1), (0, 3)):
            now(self.node.broker.features.change([LevelChange("group.version", level, upgrade_type)]))
            self.assertEqual(self.offers_consumer_groups(self.node), bool(level))
        self.restart()
        self.assertFalse(self.offers_consumer_groups(self.node))

    def test_consumer_groups_may_be_off_from_the_start(self) -> None:
        for settings in (
            {"initial.features": "group.version=0"},
            {"group.coordinator.rebalance.protocols": "classic"},
            {"api.versions.release": "3.9"},
        ):
            with opened_node((self.enterContext(TemporaryDirectory()),), settings) as node:
                self.assertFalse(self.offers_consumer_groups(node), settings)

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
