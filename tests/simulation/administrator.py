"""A client that changes settings of topics and brokers, and ACLs. Each value is new, so it names the change.

| change                           | broker that is asked | with ZooKeeper found in                      |
|----------------------------------|----------------------|----------------------------------------------|
| setting of a topic               | any                  | /config/topics/<topic>                       |
| setting of all brokers           | any                  | /config/brokers/<default>                    |
| setting of one broker            | that one             | /config/brokers/<id>                         |
| ACL of a name, or of a prefix    | any                  | /kafka-acl, /kafka-acl-extended/prefixed     |

Notifications announce changes to the other brokers. `rest` compares what each of them has with the tree.
"""

from __future__ import annotations

from typing import Final

from pylogbroker.broker.metadata.config_resources import ResourceType
from pylogbroker.config import ConfigOperation
from pylogbroker.metadata.image import ConfigResource, broker_resource, topic_resource
from pylogbroker.security.acls.bindings import (
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
    ResourcePattern,
)
from pylogbroker.wire.messages.create_acls import AclCreation, CreateAclsRequest
from pylogbroker.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from pylogbroker.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.simulation.clients import Client
from tests.simulation.cluster import SimulatedCluster
from tests.simulation.registers import Registers
from tests.simulation.setup import KRAFT, RECREATED, TOPIC

BROKER_SETTING: Final = "log.retention.ms"
TOPIC_SETTING: Final = "retention.ms"
_RETENTION_MS: Final = 10**12  # so that nothing is deleted
_UNSET_SHARE: Final = 0.2
_SECONDS_MAX: Final = 0.3
"""Time between two changes."""
RESOURCES: Final = (
    ResourcePattern(AclResourceType.TOPIC, TOPIC),
    ResourcePattern(AclResourceType.TOPIC, TOPIC[:2], PatternType.PREFIXED),
)


class Administrator(Client):
    def __init__(self, cluster: SimulatedCluster, number: int) -> None:
        super().__init__(cluster, number)
        self.settings = Registers("14", None)
        self.principals = Registers("14", False)
        self._changes = 0

    @property
    def acknowledged(self) -> int:
        return self.settings.acknowledged + self.principals.acknowledged

    async def act(self) -> None:
        await self.pause(self.rng.random() * _SECONDS_MAX)
        self._changes += 1
        change = self.rng.choice(
            (self._alter_topic, self._alter_broker, self._alter_all_brokers, self._add_acl, self._remove_acl)
        )
        await change()

    # settings

    async def _alter_topic(self) -> None:
        topics = (TOPIC, RECREATED) if self.cluster.setup.recreators else (TOPIC,)
        resource = topic_resource(self.rng.choice(topics))
        await self._alter(self.any_broker(), ResourceType.TOPIC, resource.name, resource, TOPIC_SETTING)

    async def _alter_broker(self) -> None:
        broker = self.any_broker()
        await self._alter(broker, ResourceType.BROKER, str(broker), broker_resource(broker), BROKER_SETTING)

    async def _alter_all_brokers(self) -> None:
        await self._alter(self.any_broker(), ResourceType.BROKER, "", broker_resource(None), BROKER_SETTING)

    async def _alter(self, broker: int, kind: ResourceType, name: str, resource: ConfigResource, setting: str) -> None:
        value = None if self.rng.random() < _UNSET_SHARE else str(_RETENTION_MS + self._changes)
        operation = ConfigOperation.DELETE if value is None else ConfigOperation.SET
        change = AlterConfigsResource(kind, name, [AlterableConfig(setting, operation, value)])
        write = self.settings.begin((resource, setting), value)
        response = await self.try_to_ask(broker, IncrementalAlterConfigsRequest([change]))
        if response is not None and not response.responses[0].error_code:
            self.settings.acknowledge(write)

    # ACLs

    async def _add_acl(self) -> None:
        resource, principal = self.rng.choice(RESOURCES), f"User:{self._changes}"
        creation = AclCreation(
            resource.type,
            resource.name,
            resource.pattern,
            principal,
            "*",
            AclOperation.READ,
            AclPermission.ALLOW,
        )
        write = self.principals.begin(principal, True)
        response = await self.try_to_ask(self.any_broker(), CreateAclsRequest([creation]))
        if response is not None and not response.results[0].error_code:
            self.principals.acknowledge(write)

    async def _remove_acl(self) -> None:
        principals = list(self.principals)
        if not principals:
            return
        principal = self.rng.choice(principals)
        wanted = DeleteAclsFilter(
            AclResourceType.ANY,
            None,
            PatternType.ANY,
            str(principal),
            None,
            AclOperation.ANY,
            AclPermission.ANY,
        )
        write = self.principals.begin(principal, False)
        response = await self.try_to_ask(self.any_broker(), DeleteAclsRequest([wanted]))
        if response is None:
            return
        [result] = response.filter_results
        if not result.error_code and not result.matching_acls:  # the broker knows no such ACL, or not yet
            if self.cluster.setup.engine != KRAFT:  # a member that gets no answer of the controller asks it again
                self.principals.withdraw(principal, write)
        elif not result.error_code and not any(each.error_code for each in result.matching_acls):
            self.principals.acknowledge(write)

    # what is there

    def check_stored(self) -> None:
        """Check 14: what is stored is of the last acknowledged change, or of one without an answer."""
        stored, settings, principals = self.cluster.stored, self.settings, self.principals
        found = dict(stored.settings())
        for key in settings:
            resource, setting = key
            if resource.name != RECREATED:  # its settings end with it
                settings.check_read(key, found.get(resource, {}).get(setting), settings.now())
        allowed = {entry.principal for pattern in RESOURCES for entry in stored.acl_entries(pattern)}
        for principal in principals:
            principals.check_read(principal, principal in allowed, principals.now())
