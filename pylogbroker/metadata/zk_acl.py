"""ACLs of new nodes under `zookeeper.set.acl`, as Kafka's `ZkData.defaultAcls` has them."""

from __future__ import annotations

from collections.abc import Sequence

from pylogbroker.interfaces import CREATOR_ACL, OPEN_ACL, READABLE_ACL, Acl
from pylogbroker.metadata import zk_paths

_SECRET_PREFIXES = (zk_paths.CONFIG_USERS, zk_paths.CONFIG_BROKERS, "/delegation_token/tokens")


def secure_acl(path: str) -> Sequence[Acl]:
    """Let only brokers write, and others read what has no credentials; consumers of 0.8 write below `/consumers`."""
    if path == zk_paths.CONSUMERS:
        return OPEN_ACL
    return CREATOR_ACL if path.startswith(_SECRET_PREFIXES) else READABLE_ACL
