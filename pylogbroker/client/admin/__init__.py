"""The admin client: everything about a cluster but its records.

    admin = AdminClient("localhost:9092")
    await admin.topics.create([NewTopic("orders", partitions=3)])
    groups = await admin.groups.describe(["readers"])
    await admin.close()

Modules:

    `client`            `AdminClient`: its parts are the nouns below
    `topics`            list, describe, create, delete, add partitions
    `configs`           settings of topics and brokers
    `groups`            groups, members, committed offsets
    `records`           offsets by time, deletion
    `cluster_info`      brokers, controller, features
    `share_groups`      share groups, and where they start
    `transactions`      transactions; producers of partitions
    `replicas`          log directories, reassignments, elections of leaders
    `acls`              access control lists
    `users`             users of SCRAM
    `quotas`            quotas of users, client ids and addresses
    `tokens`            delegation tokens
    `routing`           which broker is asked, and retries; `reactor_waits`: on a reactor
    `parts`             the nouns as attributes

Calls about several items return results by item. If some fail, ItemsFailed has the errors and the other results; the
error of a call's only item is raised itself.

Classes are imported on first use: a command needs few of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pylogbroker.lazy_names import lazy_names

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
        BrokerMembership,
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
    from pylogbroker.client.admin.group_descriptions import GroupDescription, MemberDescription
    from pylogbroker.client.admin.groups import (
        CommittedOffset,
        GroupListing,
        MemberToRemove,
    )
    from pylogbroker.client.admin.quotas import AnyName
    from pylogbroker.client.admin.records import EARLIEST, EARLIEST_LOCAL, LATEST, MAX_TIMESTAMP, ListedOffset
    from pylogbroker.client.admin.replicas import ElectionType, LogDirDescription, Reassignment, ReplicaInfo
    from pylogbroker.client.admin.routing import ItemsFailed
    from pylogbroker.client.admin.share_groups import (
        ShareGroupOffset,
        ShareGroupSummary,
        ShareMemberSummary,
    )
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
    "EARLIEST_LOCAL",
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
    "BrokerMembership",
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
    "ShareGroupOffset",
    "ShareGroupSummary",
    "ShareMemberSummary",
    "TopicDescription",
    "TopicListing",
    "TransactionDescription",
    "TransactionListing",
    "UpgradeType",
]

_MODULES: Final = {
    "EARLIEST": ".records",
    "EARLIEST_LOCAL": ".records",
    "LATEST": ".records",
    "MAX_TIMESTAMP": ".records",
    "AccessControlEntry": ".acls",
    "AclBinding": ".acls",
    "AclFilter": ".acls",
    "AclOperation": ".acls",
    "AclPermission": ".acls",
    "AclResourceType": ".acls",
    "AdminClient": ".client",
    "AnyName": ".quotas",
    "BrokerDescription": ".cluster_info",
    "BrokerMembership": ".cluster_info",
    "ClusterDescription": ".cluster_info",
    "CommittedOffset": ".groups",
    "ConfigEntry": ".configs",
    "ConfigOperation": "pylogbroker.config.changes",
    "ConfigResource": ".configs",
    "ConfigResourceType": ".configs",
    "ConfigSynonym": ".configs",
    "CreatedTopic": ".topics",
    "DelegationToken": "pylogbroker.security.delegation.tokens",
    "ElectionType": ".replicas",
    "FeatureLevels": ".cluster_info",
    "GroupDescription": ".group_descriptions",
    "GroupListing": ".groups",
    "IssuedToken": "pylogbroker.security.delegation.tokens",
    "ItemsFailed": ".routing",
    "ListedOffset": ".records",
    "LogDirDescription": ".replicas",
    "MemberDescription": ".group_descriptions",
    "MemberToRemove": ".groups",
    "NewTopic": ".topics",
    "PartitionDescription": ".topics",
    "PatternType": ".acls",
    "ProducerDescription": ".transactions",
    "Reassignment": ".replicas",
    "ReplicaInfo": ".replicas",
    "ResourcePattern": ".acls",
    "SettingChange": "pylogbroker.config.changes",
    "ShareGroupSummary": ".share_groups",
    "ShareGroupOffset": ".share_groups",
    "ShareMemberSummary": ".share_groups",
    "TopicDescription": ".topics",
    "TopicListing": ".topics",
    "TransactionDescription": ".transactions",
    "TransactionListing": ".transactions",
    "UpgradeType": ".cluster_info",
}

__getattr__, __dir__ = lazy_names(__name__, _MODULES)
