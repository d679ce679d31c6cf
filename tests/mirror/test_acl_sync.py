"""ACLs of topics that are added in the target."""

from __future__ import annotations

from pylogbroker.client.admin import AdminClient
from pylogbroker.mirror.acl_sync import AclSync, bindings_for
from pylogbroker.security.acls.bindings import (
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
    ResourcePattern,
)
from pylogbroker.testing import Broker

TOPICS = {"orders": "A.orders", "bills": "A.bills"}
AUTHORIZED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


def acl(name, operation, permission=AclPermission.ALLOW, kind=AclResourceType.TOPIC, pattern=PatternType.LITERAL):
    return AclBinding(ResourcePattern(kind, name, pattern), AccessControlEntry("User:ann", "*", operation, permission))


def test_reading_is_allowed_as_in_the_source_and_writing_is_not():
    of_source = [
        acl("orders", AclOperation.READ),
        acl("orders", AclOperation.WRITE),
        acl("orders", AclOperation.DESCRIBE),
        acl("orders", AclOperation.WRITE, AclPermission.DENY),
        acl("bills", AclOperation.ALL),
    ]
    assert bindings_for(of_source, TOPICS) == [
        acl("A.orders", AclOperation.READ),
        acl("A.orders", AclOperation.DESCRIBE),
        acl("A.orders", AclOperation.WRITE, AclPermission.DENY),
        acl("A.bills", AclOperation.READ),
    ]


def test_denied_operations_stay_denied():
    assert bindings_for([acl("orders", AclOperation.ALL, AclPermission.DENY)], TOPICS) == [
        acl("A.orders", AclOperation.ALL, AclPermission.DENY)
    ]


def test_acls_that_are_not_of_a_mirrored_topic_by_name_are_left_out():
    of_source = [
        acl("*", AclOperation.READ),
        acl("ord", AclOperation.READ, pattern=PatternType.PREFIXED),
        acl("orders", AclOperation.READ, kind=AclResourceType.GROUP),
        acl("others", AclOperation.READ),
    ]
    assert bindings_for(of_source, TOPICS) == []


def test_equal_acls_are_added_once():
    assert bindings_for([acl("orders", AclOperation.READ), acl("orders", AclOperation.ALL)], TOPICS) == [
        acl("A.orders", AclOperation.READ)
    ]


async def test_missing_acls_are_added() -> None:
    with Broker(AUTHORIZED) as first, Broker(AUTHORIZED) as second:
        source, target = (AdminClient(broker.bootstrap) for broker in (first, second))
        await source.acls.create([acl("orders", AclOperation.ALL), acl("bills", AclOperation.WRITE)])
        sync = AclSync(source, target)
        assert await sync.run(TOPICS) == 1
        assert await sync.run(TOPICS) == 0
        assert await target.acls.describe() == (acl("A.orders", AclOperation.READ),)
        await source.close()
        await target.close()


async def test_clusters_without_an_authorizer_have_no_acls() -> None:
    with Broker() as broker:
        admin = AdminClient(broker.bootstrap)
        sync = AclSync(admin, admin)
        assert [await sync.run(TOPICS), await sync.run(TOPICS)] == [0, 0]
        await admin.close()
