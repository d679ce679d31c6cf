"""Quotas in a cluster with Apache Kafka: changes by one broker are in force at the other."""

from __future__ import annotations

import pytest

from tests.cluster.conftest import NewCluster
from tests.cluster.members import CALM, apache, own
from tests.peers import available
from tests.peers.tools import tool
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(not available(), reason="needs a JDK and Maven")
ALICES_CLIENTS = ("--entity-type", "users", "--entity-name", "alice a", "--entity-type", "clients", "--entity-default")
ADDRESS = ("--entity-type", "ips", "--entity-name", "10.0.0.1")


def test_both_brokers_know_the_quotas_that_one_changed(new_cluster_on_zookeeper: NewCluster) -> None:
    cluster = new_cluster_on_zookeeper(own, apache, settings=CALM)

    def configs(broker_id: int, *arguments: str) -> str:
        return tool("kafka-configs", "--bootstrap-server", cluster.members[broker_id].bootstrap, *arguments).stdout

    for writer, reader, rate in ((1, 2, 1000), (2, 1, 2000)):
        configs(writer, "--alter", *ALICES_CLIENTS, "--add-config", f"producer_byte_rate={rate},request_percentage=5.5")
        configs(writer, "--alter", *ADDRESS, "--add-config", f"connection_creation_rate={rate}")
        wanted = f"{rate}.0"
        wait_until(lambda reader=reader, wanted=wanted: wanted in configs(reader, "--describe", *ALICES_CLIENTS))  # type: ignore[misc]
        wait_until(lambda reader=reader, wanted=wanted: wanted in configs(reader, "--describe", *ADDRESS))  # type: ignore[misc]
        wait_until(lambda: configs(1, "--describe", *ALICES_CLIENTS) == configs(2, "--describe", *ALICES_CLIENTS))
    configs(1, "--alter", *ALICES_CLIENTS, "--delete-config", "producer_byte_rate,request_percentage")
    wait_until(lambda: not configs(2, "--describe", *ALICES_CLIENTS).strip())
    configs(2, "--alter", *ADDRESS, "--delete-config", "connection_creation_rate")
    wait_until(lambda: not configs(1, "--describe", *ADDRESS).strip())
