"""The admin client: everything about a cluster but its records.

    admin = AdminClient("localhost:9092")
    await admin.topics.create([NewTopic("orders", partitions=3)])
    for group, each in (await admin.groups.describe(["readers"])).items(): ...
    await admin.close()

    ==================  ========================================================================================
    `client`            `AdminClient`: its parts are the nouns below
    `topics`            list, describe, create, delete, add partitions
    `configs`           settings of topics and brokers
    `groups`            groups, members, committed offsets
    `records`           offsets by time, deletion
    `cluster_info`      brokers, controller, features
    `transactions`      transactions; producers of partitions
    `replicas`          log directories, reassignments, elections of leaders
    `acls`              access control lists
    `users`             users of SCRAM
    `quotas`            quotas of users, client ids and addresses
    `tokens`            delegation tokens
    `routing`           which broker is asked, and retries
    ==================  ========================================================================================

Calls about several items return results by item. If some fail, ItemsFailed has the errors and the other results; the
error of a call's only item is raised itself.

Classes are imported on first use: a command needs few of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pylogbroker.client.admin.acls import (
        AccessControlEntry,
        AclBinding,
        AclFilter,
        AclOperation,
        AclPermission,
        AclResourceType,
        PatternType,
        ResourcePattern,
    )
    from pylogbroker.client.admin.client import AdminClient
    from pylogbroker.client.admin.cluster_info import (
        BrokerDescription,
        ClusterDescription,
        FeatureLevels,
        UpgradeType,
    )
    from pylogbroker.client.admin.configs import (
        ConfigEntry,
        ConfigResource,
        ConfigResourceType,
        ConfigSynonym,
    )
    from pylogbroker.client.admin.groups import (
        CommittedOffset,
        GroupDescription,
        GroupListing,
        MemberDescription,
        MemberToRemove,
    )
    from pylogbroker.client.admin.quotas import AnyName
    from pylogbroker.client.admin.records import EARLIEST, LATEST, MAX_TIMESTAMP, ListedOffset
    from pylogbroker.client.admin.replicas import ElectionType, LogDirDescription, Reassignment, ReplicaInfo
    from pylogbroker.client.admin.routing import ItemsFailed
    from pylogbroker.client.admin.topics import (
        CreatedTopic,
        NewTopic,
        PartitionDescription,
        TopicDescription,
        TopicListing,
    )
    from pylogbroker.client.admin.transactions import ProducerDescription, TransactionDescription, TransactionListing
    from pylogbroker.config.changes import ConfigOperation, SettingChange
    from pylogbroker.security.delegation.tokens import DelegationToken, IssuedToken

__all__ = [
    "EARLIEST",
    "LATEST",
    "MAX_TIMESTAMP",
    "AccessControlEntry",
    "AclBinding",
    "AclFilter",
    "AclOperation",
    "AclPermission",
    "AclResourceType",
    "AdminClient",
    "AnyName",
    "BrokerDescription",
    "ClusterDescription",
    "CommittedOffset",
    "ConfigEntry",
    "ConfigOperation",
    "ConfigResource",
    "ConfigResourceType",
    "ConfigSynonym",
    "CreatedTopic",
    "DelegationToken",
    "ElectionType",
    "FeatureLevels",
    "GroupDescription",
    "GroupListing",
    "IssuedToken",
    "ItemsFailed",
    "ListedOffset",
    "LogDirDescription",
    "MemberDescription",
    "MemberToRemove",
    "NewTopic",
    "PartitionDescription",
    "PatternType",
    "ProducerDescription",
    "Reassignment",
    "ReplicaInfo",
    "ResourcePattern",
    "SettingChange",
    "TopicDescription",
    "TopicListing",
    "TransactionDescription",
    "TransactionListing",
    "UpgradeType",
]

_MODULES: Final = {
    "EARLIEST": "pylogbroker.client.admin.records",
    "LATEST": "pylogbroker.client.admin.records",
    "MAX_TIMESTAMP": "pylogbroker.client.admin.records",
    "AccessControlEntry": "pylogbroker.client.admin.acls",
    "AclBinding": "pylogbroker.client.admin.acls",
    "AclFilter": "pylogbroker.client.admin.acls",
    "AclOperation": "pylogbroker.client.admin.acls",
    "AclPermission": "pylogbroker.client.admin.acls",
    "AclResourceType": "pylogbroker.client.admin.acls",
    "AdminClient": "pylogbroker.client.admin.client",
    "AnyName": "pylogbroker.client.admin.quotas",
    "BrokerDescription": "pylogbroker.client.admin.cluster_info",
    "ClusterDescription": "pylogbroker.client.admin.cluster_info",
    "CommittedOffset": "pylogbroker.client.admin.groups",
    "ConfigEntry": "pylogbroker.client.admin.configs",
    "ConfigOperation": "pylogbroker.config.changes",
    "ConfigResource": "pylogbroker.client.admin.configs",
    "ConfigResourceType": "pylogbroker.client.admin.configs",
    "ConfigSynonym": "pylogbroker.client.admin.configs",
    "CreatedTopic": "pylogbroker.client.admin.topics",
    "DelegationToken": "pylogbroker.security.delegation.tokens",
    "ElectionType": "pylogbroker.client.admin.replicas",
    "FeatureLevels": "pylogbroker.client.admin.cluster_info",
    "GroupDescription": "pylogbroker.client.admin.groups",
    "GroupListing": "pylogbroker.client.admin.groups",
    "IssuedToken": "pylogbroker.security.delegation.tokens",
    "ItemsFailed": "pylogbroker.client.admin.routing",
    "ListedOffset": "pylogbroker.client.admin.records",
    "LogDirDescription": "pylogbroker.client.admin.replicas",
    "MemberDescription": "pylogbroker.client.admin.groups",
    "MemberToRemove": "pylogbroker.client.admin.groups",
    "NewTopic": "pylogbroker.client.admin.topics",
    "PartitionDescription": "pylogbroker.client.admin.topics",
    "PatternType": "pylogbroker.client.admin.acls",
    "ProducerDescription": "pylogbroker.client.admin.transactions",
    "Reassignment": "pylogbroker.client.admin.replicas",
    "ReplicaInfo": "pylogbroker.client.admin.replicas",
    "ResourcePattern": "pylogbroker.client.admin.acls",
    "SettingChange": "pylogbroker.config.changes",
    "TopicDescription": "pylogbroker.client.admin.topics",
    "TopicListing": "pylogbroker.client.admin.topics",
    "TransactionDescription": "pylogbroker.client.admin.transactions",
    "TransactionListing": "pylogbroker.client.admin.transactions",
    "UpgradeType": "pylogbroker.client.admin.cluster_info",
}


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(module), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
