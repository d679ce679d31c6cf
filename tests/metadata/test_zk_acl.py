"""ACLs of new nodes, as Kafka's documentation of `zookeeper.set.acl` has them."""

from __future__ import annotations

import pytest

from pylogbroker.interfaces import CREATOR_ACL, OPEN_ACL, READABLE_ACL
from pylogbroker.metadata.zk_acl import secure_acl


@pytest.mark.parametrize("path", ["/brokers/ids/1", "/config/topics/t", "/consumers/g", "/", "/delegation_token"])
def test_anyone_may_read(path: str) -> None:
    assert secure_acl(path) == READABLE_ACL


@pytest.mark.parametrize(
    "path", ["/config/users", "/config/users/alice", "/config/brokers/1", "/delegation_token/tokens/x"]
)
def test_credentials_are_for_brokers_alone(path: str) -> None:
    assert secure_acl(path) == CREATOR_ACL


def test_consumers_write_below_a_node_of_their_own() -> None:
    assert secure_acl("/consumers") == OPEN_ACL
