"""Questions of handlers about access; without an authorizer everything is allowed."""

from __future__ import annotations

from typing import Final

from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.security.access import Access
from pylogbroker.broker.services import Features
from pylogbroker.security.acls.authorizer import SUPPORTED_OPERATIONS, bit_field
from pylogbroker.security.acls.bindings import CLUSTER_NAME, AclOperation, AclResourceType


def may_see_topic(context: RequestContext, name: str) -> bool:
    """Return whether a topic may be listed; a denial is not logged."""
    access = context.access
    return access is None or access.allows(AclOperation.DESCRIBE, AclResourceType.TOPIC, name, quietly=True)


def may_create_topic(access: Access, name: str) -> bool:
    return access.allows_on_cluster(AclOperation.CREATE, quietly=True) or access.allows_on_topic(
        AclOperation.CREATE, name
    )


def authorized_operations(context: RequestContext, kind: AclResourceType, name: str) -> int:
    """Return what may be done with a resource, as the bit field in responses (KIP-430)."""
    if context.access is None:
        return _ALL[kind]
    return context.access.operations(kind, name)


def group_operations(features: Features, context: RequestContext, group_id: str) -> int:
    """Return what may be done with a group; without features, as Kafka 3.9 does, which lists no settings of groups."""
    operations = authorized_operations(context, AclResourceType.GROUP, group_id)
    return operations if features.is_on else operations & ~_GROUP_SETTINGS


def cluster_operations(context: RequestContext) -> int:
    """Return what may be done with the cluster; none to those who may not describe it."""
    if context.access is not None and not context.access.allows_on_cluster(AclOperation.DESCRIBE, quietly=True):
        return 0
    return authorized_operations(context, AclResourceType.CLUSTER, CLUSTER_NAME)


_GROUP_SETTINGS: Final = bit_field((AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS))
_ALL = {kind: bit_field(operations) for kind, operations in SUPPORTED_OPERATIONS.items()}
