"""Wrong arguments of the admin client are errors at once, which name the argument; no broker is asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from pylogbroker.client.admin import AclFilter, AdminClient, ConfigOperation, ConfigResource, NewTopic, SettingChange
from pylogbroker.client.admin.configs import ConfigAdmin
from pylogbroker.client.admin.reactor_waits import ReactorWaits
from pylogbroker.client.admin.routing import NodeRoute
from pylogbroker.client.admin.topics import TopicAdmin
from pylogbroker.errors import ConfigError
from pylogbroker.rpc.backoff import Backoff
from pylogbroker.rpc.retries import Pauses
from pylogbroker.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from pylogbroker.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

Call = Callable[[Any], Any]

TOPIC = ConfigResource.topic("orders")
WRONG_CALLS: dict[str, tuple[Call, str]] = {
    "one topic": (lambda admin: admin.topics.create(NewTopic("orders")), "topics: NewTopic"),
    "a name for a topic": (lambda admin: admin.topics.create(["orders"]), "topics: 'orders'"),
    "one name": (lambda admin: admin.topics.delete("orders"), "names: 'orders'"),
    "a number of partitions as text": (lambda admin: admin.topics.add_partitions({"orders": "3"}), "totals: '3'"),
    "names for totals": (lambda admin: admin.topics.add_partitions(["orders"]), "totals: ['orders']"),
    "replicas of no list": (
        lambda admin: admin.topics.add_partitions({"orders": 3}, assignments={"orders": [1]}),
        "assignments: 1 ",
    ),
    "a name for a resource": (lambda admin: admin.configs.describe(["orders"]), "resources: 'orders'"),
    "one name of a setting": (lambda admin: admin.configs.describe([TOPIC], "retention.ms"), "names: 'retention.ms'"),
    "a mapping for changes": (lambda admin: admin.configs.alter({TOPIC: {"retention.ms": 1}}), "changes: 'retention"),
    "a name with changes": (lambda admin: admin.configs.alter({"orders": []}), "changes: 'orders'"),
    "one group": (lambda admin: admin.groups.describe("readers"), "groups: 'readers'"),
    "one group to delete": (lambda admin: admin.groups.delete("readers"), "groups: 'readers'"),
    "one state": (lambda admin: admin.groups.list(states="Empty"), "states: 'Empty'"),
    "a name for a member": (lambda admin: admin.groups.remove_members("readers", ["m"]), "members: 'm'"),
    "a topic for a partition": (
        lambda admin: admin.groups.alter_offsets("readers", {"orders": 1}),
        "offsets: 'orders'",
    ),
    "an offset as text": (lambda admin: admin.records.delete({("orders", 0): "1"}), "before: '1'"),
    "a time as text": (lambda admin: admin.records.offsets({("orders", 0): "latest"}), "times: 'latest'"),
    "partitions without times": (lambda admin: admin.records.offsets([("orders", 0)]), "times: [('orders', 0)]"),
    "one broker": (lambda admin: admin.replicas.log_dirs("1"), "brokers: '1'"),
    "replicas as text": (lambda admin: admin.replicas.reassign({("orders", 0): "1"}), "replicas: '1'"),
    "a move without a broker": (
        lambda admin: admin.replicas.alter_log_dirs({("orders", 0): "/data"}),
        "moves: ('orders'",
    ),
    "one transactional id": (lambda admin: admin.transactions.describe("one"), "transactional_ids: 'one'"),
    "one id to fence": (lambda admin: admin.transactions.fence("one"), "transactional_ids: 'one'"),
    "one state of transactions": (lambda admin: admin.transactions.list(states="Ongoing"), "states: 'Ongoing'"),
    "a text for an ACL": (lambda admin: admin.acls.create(["alice"]), "bindings: 'alice'"),
    "a text for a filter": (lambda admin: admin.acls.describe("alice"), "acl_filter: 'alice'"),
    "one filter": (lambda admin: admin.acls.delete(AclFilter()), "filters: AclFilter"),
    "a level as text": (lambda admin: admin.cluster.update_features({"metadata.version": "1"}), "levels: '1'"),
    "a password of bytes": (lambda admin: admin.users.set_password("alice", b"secret"), "password: bytes"),
}
WRONG_TOPICS: dict[str, tuple[dict[str, Any], str]] = {
    "a name of bytes": ({"name": b"orders"}, "name: b'orders'"),
    "partitions as text": ({"name": "orders", "partitions": "3"}, "partitions: '3'"),
    "too many partitions": ({"name": "orders", "partitions": 1 << 31}, "partitions: 2147483648"),
    "too many replicas": ({"name": "orders", "replication_factor": 1 << 15}, "replication_factor: 32768"),
    "settings in a list": ({"name": "orders", "configs": ["retention.ms"]}, "configs: ['retention.ms']"),
    "a list as a value": ({"name": "orders", "configs": {"cleanup.policy": ["delete"]}}, "configs['cleanup.policy']"),
    "replicas in a list": ({"name": "orders", "assignments": [[1]]}, "assignments: [[1]]"),
}


@pytest.mark.parametrize(("call", "start"), WRONG_CALLS.values(), ids=WRONG_CALLS)
def test_wrong_arguments(call: Call, start: str) -> None:
    work = call(AdminClient("127.0.0.1:1", reactor=Clock()))
    error = SynchronousTestCase().failureResultOf(work, ConfigError).value
    assert str(error).startswith(start)
    assert "secret" not in str(error)
    assert "expected" in str(error)


@pytest.mark.parametrize(("given", "start"), WRONG_TOPICS.values(), ids=WRONG_TOPICS)
def test_wrong_topics(given: dict[str, Any], start: str) -> None:
    with pytest.raises(ConfigError) as raised:
        NewTopic(**given)
    assert str(raised.value).startswith(start)


@attrs.define
class Recorder:
    """A router that keeps the request of a call, and has an answer for it."""

    answer: Any
    request: Any = None
    timeout_ms: int = 1000
    waits: ReactorWaits = attrs.field(factory=lambda: ReactorWaits(Pauses(Clock()), Backoff.fixed(1.0), 1.0))

    def controller(self) -> NodeRoute[Any]:
        async def first(key: object) -> int:
            return 0

        return NodeRoute(first)

    async def ask(self, route: Any, keys: Any, make: Any, read: Any) -> dict[Any, Any]:
        self.request = make([*keys])
        return dict(read(self.answer))


def test_numbers_and_booleans_are_settings() -> None:
    creations = Recorder(CreateTopicsResponse())
    settings = {
        "retention.ms": 1000,
        "preallocate": True,
        "min.cleanable.dirty.ratio": 0.5,
        "cleanup.policy": "compact",
    }
    SynchronousTestCase().successResultOf(
        TopicAdmin(creations).create([NewTopic("orders", configs=settings)])  # type: ignore[arg-type]
    )
    assert isinstance(creations.request, CreateTopicsRequest)
    assert [(config.name, config.value) for config in creations.request.topics[0].configs] == [
        ("retention.ms", "1000"),
        ("preallocate", "true"),
        ("min.cleanable.dirty.ratio", "0.5"),
        ("cleanup.policy", "compact"),
    ]
    changes = Recorder(IncrementalAlterConfigsResponse())
    change = SettingChange("retention.ms", ConfigOperation.SET, 7)  # type: ignore[arg-type]
    SynchronousTestCase().successResultOf(
        ConfigAdmin(changes).alter({TOPIC: [change]})  # type: ignore[arg-type]
    )
    assert isinstance(changes.request, IncrementalAlterConfigsRequest)
    assert [config.value for config in changes.request.resources[0].configs] == ["7"]
