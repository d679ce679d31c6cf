"""ACLs in a cluster: changes by one broker are in force at the others, Apache Kafka's among them."""

from __future__ import annotations

import pytest

from tests.cluster.conftest import NewCluster
from tests.cluster.members import CALM, Maker, apache, own
from tests.peers import available
from tests.peers.tools import tool
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(not available(), reason="needs a JDK and Maven")
SETTINGS = {
    **CALM,
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",  # brokers connect to each other as that
}


@pytest.mark.parametrize("other", [own, apache], ids=["own", "kafka"])
def test_all_brokers_know_the_acls_that_one_changed(new_cluster_on_zookeeper: NewCluster, other: Maker) -> None:
    cluster = new_cluster_on_zookeeper(own, other, settings=SETTINGS)

    def acls(broker_id: int, *arguments: str) -> str:
        return tool("kafka-acls", "--bootstrap-server", cluster.members[broker_id].bootstrap, *arguments).stdout

    for writer, reader, name in ((1, 2, "first"), (2, 1, "second")):
        allowed = ("--allow-principal", f"User:{name}", "--topic", name)
        acls(writer, "--add", *allowed, "--operation", "Write")
        acls(writer, "--add", *allowed, "--operation", "Read", "--resource-pattern-type", "prefixed")
        wait_until(lambda name=name, reader=reader: acls(reader, "--list").count(f"User:{name}") == 2)  # type: ignore[misc]
        acls(reader, "--remove", "--force", "--topic", name)
        wait_until(lambda name=name, writer=writer: acls(writer, "--list").count(f"User:{name}") == 1)  # type: ignore[misc]
