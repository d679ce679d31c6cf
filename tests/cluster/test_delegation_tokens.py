"""Delegation tokens in a cluster with Apache Kafka: each broker accepts, renews and deletes those of the other."""

from __future__ import annotations

from functools import partial

import attrs
import pytest

from pylogbroker.client.admin import IssuedToken
from pylogbroker.client.sync import AdminClient
from pylogbroker.rpc.errors import NotAuthenticated
from tests.cluster.conftest import NewCluster
from tests.cluster.members import CALM, ClusterBroker, Maker, Place, apache, own
from tests.peers import available
from tests.peers.processes import free_ports
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(not available(), reason="needs a JDK and Maven")
SECURITY = "org.apache.kafka.common.security"
SETTINGS = {
    **CALM,
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,TOKENS:SASL_PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
    "listener.name.tokens.plain.sasl.jaas.config": f'{SECURITY}.plain.PlainLoginModule required user_alice="word";',
    "listener.name.tokens.scram-sha-512.sasl.jaas.config": f"{SECURITY}.scram.ScramLoginModule required;",
    "delegation.token.secret.key": "the key of the cluster",
}


def with_sasl(maker: Maker, port: int, place: Place) -> ClusterBroker:
    """Make a broker with a listener for SASL, besides the one for brokers."""
    listeners = f"PLAINTEXT://127.0.0.1:{place.port},TOKENS://127.0.0.1:{port}"
    return maker(attrs.evolve(place, settings={**place.settings, "listeners": listeners}))


def admin(port: int, **settings: str) -> AdminClient:
    named = {name.replace("_", "."): text for name, text in settings.items()}
    return AdminClient(f"127.0.0.1:{port}", settings={"security.protocol": "SASL_PLAINTEXT", **named})


def alice(port: int) -> AdminClient:
    return admin(port, sasl_mechanism="PLAIN", sasl_username="alice", sasl_password="word")


def connects(port: int, issued: IssuedToken) -> bool:
    login = f'username="{issued.token.token_id}" password="{issued.password}" tokenauth="true"'
    jaas = f"{SECURITY}.scram.ScramLoginModule required {login};"
    with admin(port, sasl_mechanism="SCRAM-SHA-512", sasl_jaas_config=jaas) as client:
        try:
            return bool(client.cluster.describe().brokers)
        except NotAuthenticated:
            return False


def test_brokers_share_tokens(new_cluster_on_zookeeper: NewCluster) -> None:
    ports = free_ports(2)
    makers = [partial(with_sasl, maker, port) for maker, port in zip((own, apache), ports, strict=True)]
    new_cluster_on_zookeeper(*makers, settings=SETTINGS)
    share(*ports)
    share(*ports[::-1])


def share(first: int, second: int) -> None:
    """Create a token at one broker, renew and delete it at another one."""
    with alice(first) as mine, alice(second) as other:
        issued = mine.tokens.create(renewers=["User:bob", "User:a, b"])
        wait_until(lambda: other.tokens.describe() == (issued,))
        assert connects(first, issued)
        assert connects(second, issued)
        expires_ms = other.tokens.renew(issued.hmac, 60_000)
        wait_until(lambda: mine.tokens.describe()[0].token.expires_ms == expires_ms)
        other.tokens.expire(issued.hmac)
        wait_until(lambda: mine.tokens.describe() == ())
        assert not connects(first, issued)
        assert not connects(second, issued)
