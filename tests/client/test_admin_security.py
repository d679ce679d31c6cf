"""The admin client on ACLs, users and quotas of running brokers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka.admin import AclBindingFilter as OtherFilter
from confluent_kafka.admin import AclOperation as OtherOperation
from confluent_kafka.admin import AclPermissionType as OtherPermission
from confluent_kafka.admin import AdminClient as OtherAdmin
from confluent_kafka.admin import ResourcePatternType as OtherPattern
from confluent_kafka.admin import ResourceType as OtherType
from twisted.internet.defer import Deferred

from pylogbroker.client.admin import (
    AccessControlEntry,
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermission,
    AclResourceType,
    AdminClient,
    AnyName,
    PatternType,
    ResourcePattern,
)
from pylogbroker.errors import ConfigError, ErrorCode, KafkaError
from tests.support.brokers import Broker

SCRAM = "SCRAM-SHA-256", "SCRAM-SHA-512"


@pytest.fixture
def other(broker: Broker) -> OtherAdmin:
    """librdkafka's admin client; its answers come only while it lives."""
    return OtherAdmin({"bootstrap.servers": broker.bootstrap})


async def until(work: Callable[[], Deferred[Any]], expected: Any) -> None:
    """Repeat until it is so, for Kafka answers before its brokers have a change; the test's limit is the deadline."""
    while True:
        try:
            found = await work()
        except KafkaError as error:
            assert error.code is ErrorCode.RESOURCE_NOT_FOUND  # noqa: PT017
            found = None
        if found == expected:
            return


async def test_acls_without_an_authorizer(broker: Broker) -> None:
    admin = AdminClient(broker.bootstrap)
    with pytest.raises(KafkaError) as caught:
        await admin.acls.describe()
    assert caught.value.code is ErrorCode.SECURITY_DISABLED
    await admin.close()


AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


async def test_acls(new_broker: Callable[..., Broker]) -> None:
    broker = new_broker(AUTHORIZER)
    broker.start()
    admin, theirs = AdminClient(broker.bootstrap), OtherAdmin({"bootstrap.servers": broker.bootstrap})
    read = AccessControlEntry("User:alice", "*", AclOperation.READ, AclPermission.ALLOW)
    write = AccessControlEntry("User:bob", "10.0.0.1", AclOperation.WRITE, AclPermission.DENY)
    first = AclBinding(ResourcePattern(AclResourceType.TOPIC, "orders"), read)
    second = AclBinding(ResourcePattern(AclResourceType.GROUP, "read", PatternType.PREFIXED), write)
    await admin.acls.create([first, second])
    everything = OtherFilter(OtherType.ANY, None, OtherPattern.ANY, None, None, OtherOperation.ANY, OtherPermission.ANY)
    found = {
        (each.restype.name, each.name, each.resource_pattern_type.name, each.principal, each.host, each.operation.name)
        for each in theirs.describe_acls(everything).result(60)
    }
    assert found == {
        ("TOPIC", "orders", "LITERAL", "User:alice", "*", "READ"),
        ("GROUP", "read", "PREFIXED", "User:bob", "10.0.0.1", "WRITE"),
    }
    assert set(await admin.acls.describe()) == {first, second}
    wanted = AclFilter(AclResourceType.GROUP, "readers", PatternType.MATCH)
    assert await admin.acls.describe(wanted) == (second,)
    alices = AclFilter(principal="User:alice")
    assert await admin.acls.delete([wanted, alices]) == {wanted: (second,), alices: (first,)}
    assert await admin.acls.describe() == ()
    await admin.close()


async def test_users(broker: Broker, other: OtherAdmin, fresh_name: Callable[[], str]) -> None:
    admin = AdminClient(broker.bootstrap)
    name = fresh_name()
    await admin.users.set_password(name, "pencil")
    await admin.users.set_password(name, "pen", [SCRAM[1]], 8192)
    await until(lambda: admin.users.describe([name]), {name: {SCRAM[0]: 4096, SCRAM[1]: 8192}})
    theirs = other.describe_user_scram_credentials([name])[name].result(60)
    assert {each.iterations for each in theirs.scram_credential_infos} == {4096, 8192}
    assert name in await admin.users.describe()
    await admin.users.delete(name, [SCRAM[0]])
    await until(lambda: admin.users.describe([name]), {name: {SCRAM[1]: 8192}})
    await admin.users.delete(name)
    while name in await admin.users.describe():
        pass  # each question is a request; the test's limit is the deadline
    for work in (lambda: admin.users.describe([name]), lambda: admin.users.delete(name)):
        with pytest.raises(KafkaError, match=f"user {name}: ") as caught:
            await work()
        assert caught.value.code is ErrorCode.RESOURCE_NOT_FOUND
    with pytest.raises(ConfigError, match="expected SCRAM-SHA-256 or SCRAM-SHA-512"):
        await admin.users.set_password(name, "pencil", ["PLAIN"])
    await admin.close()


async def test_quotas(broker: Broker, fresh_name: Callable[[], str]) -> None:
    admin = AdminClient(broker.bootstrap)
    user, client = fresh_name(), fresh_name()
    both = (("client-id", client), ("user", user))
    alone = (("user", user),)
    rates = {"producer_byte_rate": 1000.0, "request_percentage": 12.5}
    await admin.quotas.alter({both: rates, alone: {"consumer_byte_rate": 5000}})
    expected = {both: rates, alone: {"consumer_byte_rate": 5000}}
    await until(lambda: admin.quotas.describe({"user": user}), expected)
    assert await admin.quotas.describe({"user": user}, strict=True) == {alone: {"consumer_byte_rate": 5000}}
    assert both in await admin.quotas.describe({"client-id": AnyName})
    await admin.quotas.alter({both: dict.fromkeys(rates), alone: {"consumer_byte_rate": 1}}, validate_only=True)
    assert (await admin.quotas.describe({"user": user}))[both] == rates
    await admin.quotas.alter({both: dict.fromkeys(rates), alone: {"consumer_byte_rate": None}})
    await until(lambda: admin.quotas.describe({"user": user}), {})
    with pytest.raises(KafkaError, match=f"user {user}: ") as caught:
        await admin.quotas.alter({alone: {"nothing": 1}})
    assert caught.value.code is ErrorCode.INVALID_REQUEST
    await admin.close()
