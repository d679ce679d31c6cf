"""ListConfigResources: names by type."""

from __future__ import annotations

from tempfile import TemporaryDirectory

from pylogbroker.broker.apis import APIS, list_config_resources
from pylogbroker.errors import ErrorCode
from pylogbroker.metadata.delta import ConfigChanged, Delta
from pylogbroker.metadata.image import group_resource
from pylogbroker.wire.messages.list_config_resources import ListConfigResourcesRequest
from tests.broker.nodes import NODE_ID, NodeTests, opened_node
from tests.broker.trees import now

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32


class ListConfigResourcesTests(NodeTests):
    def listed(self, *types: int, version: int = 1) -> set[tuple[str, int]]:
        request = ListConfigResourcesRequest(list(types)) if version else ListConfigResourcesRequest()
        answer = self.node.ask(list_config_resources.handle, request, version)
        self.assertEqual(answer.error_code, ErrorCode.NONE)
        return {(resource.resource_name, resource.resource_type) for resource in answer.config_resources}

    def test_names_are_listed_by_type(self) -> None:
        self.node.create("t")
        topics, brokers, loggers = {("t", TOPIC)}, {(str(NODE_ID), BROKER)}, {(str(NODE_ID), LOGGER)}
        self.assertEqual(self.listed(TOPIC), topics)
        self.assertEqual(self.listed(LOGGER, BROKER), brokers | loggers)
        self.assertEqual(self.listed(METRICS, GROUP), set())
        self.assertEqual(self.listed(), topics | brokers | loggers)
        self.assertEqual(self.listed(version=0), set())

    def test_groups_with_settings_are_listed(self) -> None:
        for group, settings in (("set", {"consumer.session.timeout.ms": "50000"}), ("reset", {})):
            now(self.node.broker.metadata.publish(Delta.of(ConfigChanged(group_resource(group), settings))))
        self.assertEqual(self.listed(METRICS, GROUP), {("set", GROUP)})

    def test_a_denied_client_gets_no_names(self) -> None:
        settings = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
        [api] = (api for api in APIS if api.key == ListConfigResourcesRequest.api_key)
        with opened_node((self.enterContext(TemporaryDirectory()),), settings) as node:
            answer = node.ask(api.guarded().handle, ListConfigResourcesRequest(), 1, principal="User:bob")
        self.assertEqual((answer.error_code, answer.config_resources), (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, []))

    def test_an_unknown_type_is_rejected(self) -> None:
        answer = self.node.ask(list_config_resources.handle, ListConfigResourcesRequest([TOPIC, 64]), 1)
        self.assertEqual((answer.error_code, answer.config_resources), (ErrorCode.UNSUPPORTED_VERSION, []))
