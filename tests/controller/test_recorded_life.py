"""Lives of clusters that Apache Kafka was recorded at: our controller writes and sends what Apache's did."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pylogbroker.controller.ports import ControllerSettings
from pylogbroker.controller.requested_elections import ElectionKind
from pylogbroker.controller.requests import BrokerRequest, LeaderAndIsr, UpdateMetadata
from pylogbroker.interfaces import Create
from pylogbroker.metadata import zk_schema
from pylogbroker.metadata.image import NO_TOPIC_ID, PartitionKey, PartitionState
from pylogbroker.metadata.inter_broker_protocol import InterBrokerProtocol
from tests.controller.small_cluster import SmallCluster
from tests.metadata.partition_lists import encode_partition_list

LOG = Path(__file__).parents[1] / "captured" / "zk-transactions.txt"
REQUESTS = LOG.with_name("requests.jsonl")
ORDERS_ID = zk_schema.parse_id("K0QHHXQSTwafd7tGOXo1dA")


def states(cluster: SmallCluster, topic: str = "orders") -> list[tuple[int, int, int, list[int], int]]:
    """Return controller epoch, leader, leader epoch, ISR and version of each partition."""
    return [
        (state.controller_epoch, state.leader, state.leader_epoch, list(state.isr), state.partition_epoch)
        for (name, _), state in sorted(cluster.states().items())
        if name == topic
    ]


def replicas(cluster: SmallCluster, name: str = "orders") -> bytes:
    node = cluster.tree.node(f"/brokers/topics/{name}")
    assert node
    return node.data


def expand(cluster: SmallCluster, broker: int) -> None:
    """Let each leader add the broker to its ISR."""
    for key, state in cluster.states().items():
        if broker in state.replicas and broker not in state.isr:
            cluster.alter_isr(key, [*state.isr, broker])


def shut_down(cluster: SmallCluster, broker: int) -> object:
    epoch = cluster.brokers[broker].epoch
    remaining = cluster.ask(lambda controller: controller.shut_down_broker(broker, epoch))
    cluster.settle()
    cluster.kill(broker)
    cluster.settle()
    return remaining


def restart(cluster: SmallCluster, broker: int) -> None:
    cluster.start(broker)
    cluster.settle()
    expand(cluster, broker)


def prefer(cluster: SmallCluster, key: PartitionKey) -> None:
    cluster.ask(lambda controller: controller.elect_leaders(ElectionKind.PREFERRED, [key]))


def live_through() -> SmallCluster:
    """Repeat the recorded life; after each step compare the tree with the recorded one."""
    cluster = SmallCluster()
    cluster.start(1)
    assert cluster.elect(1)
    for broker in (2, 3):
        cluster.start(broker)
        cluster.settle()
    feature = cluster.tree.node("/feature")
    assert feature
    assert feature.data == b'{"features":{},"version":2,"status":1}'

    cluster.create_topic("orders", [(1, 2, 3), (2, 3, 1)], ORDERS_ID)
    cluster.settle()
    assert states(cluster) == [(1, 1, 0, [1, 2, 3], 0), (1, 2, 0, [2, 3, 1], 0)]

    cluster.add_partition("orders", (3, 1, 2))
    cluster.settle()
    assert states(cluster)[2] == (1, 3, 0, [3, 1, 2], 0)

    cluster.kill(3)
    cluster.settle()
    assert states(cluster) == [(1, 1, 1, [1, 2], 1), (1, 2, 1, [2, 1], 1), (1, 1, 1, [1, 2], 1)]

    restart(cluster, 3)
    assert states(cluster) == [(1, 1, 1, [1, 2, 3], 2), (1, 2, 1, [2, 1, 3], 2), (1, 1, 1, [1, 2, 3], 2)]

    prefer(cluster, ("orders", 2))
    assert states(cluster)[2] == (1, 3, 2, [1, 2, 3], 3)

    assert shut_down(cluster, 2) == []
    assert states(cluster) == [(1, 1, 2, [1, 3], 3), (1, 3, 2, [1, 3], 3), (1, 3, 3, [1, 3], 4)]

    restart(cluster, 2)
    assert states(cluster) == [(1, 1, 2, [1, 3, 2], 4), (1, 3, 2, [1, 3, 2], 4), (1, 3, 3, [1, 3, 2], 5)]

    prefer(cluster, ("orders", 1))
    assert states(cluster)[1] == (1, 2, 3, [1, 3, 2], 5)

    shut_down(cluster, 2)
    restart(cluster, 2)
    prefer(cluster, ("orders", 1))
    assert states(cluster) == [(1, 1, 3, [1, 3, 2], 6), (1, 2, 5, [1, 3, 2], 8), (1, 3, 4, [1, 3, 2], 7)]

    cluster.alter_isr(("orders", 0), [1, 3])
    assert states(cluster)[0] == (1, 1, 3, [1, 3], 7)
    cluster.alter_isr(("orders", 0), [1, 3, 2])

    cluster.bounce(2)
    cluster.settle()
    assert states(cluster) == [(1, 1, 4, [1, 3], 9), (1, 3, 6, [1, 3], 9), (1, 3, 5, [1, 3], 8)]
    expand(cluster, 2)
    assert states(cluster) == [(1, 1, 4, [1, 3, 2], 10), (1, 3, 6, [1, 3, 2], 10), (1, 3, 5, [1, 3, 2], 9)]

    cluster.ask(lambda controller: controller.alter_reassignments({("orders", 0): (3, 2)}))
    assert states(cluster)[0] == (1, 3, 6, [3, 2], 12)
    assert replicas(cluster) == (
        b'{"partitions":{"0":[3,2],"1":[2,3,1],"2":[3,1,2]},"topic_id":"K0QHHXQSTwafd7tGOXo1dA",'
        b'"adding_replicas":{},"removing_replicas":{},"version":3}'
    )

    cluster.create_topic("gone", [(2, 3), (3, 1)], zk_schema.parse_id("pvqfySnkRsmzAYUi9OzA7A"))
    cluster.settle()
    assert states(cluster, "gone") == [(1, 2, 0, [2, 3], 0), (1, 3, 0, [3, 1], 0)]
    cluster.mark_deleted("gone")
    cluster.settle()
    assert not [path for path in cluster.tree.entries if "gone" in path]

    listed = encode_partition_list([("orders", 1), ("orders", 2)])
    cluster.tree.apply([Create("/admin/preferred_replica_election", listed)])
    cluster.settle()
    assert states(cluster)[1] == (1, 2, 7, [1, 3, 2], 11)

    wanted = zk_schema.encode_reassignments({("orders", 0): (1, 2, 3)})
    cluster.tree.apply([Create("/admin/reassign_partitions", wanted)])
    cluster.settle()
    assert states(cluster)[0] == (1, 3, 7, [3, 2], 13)
    cluster.alter_isr(("orders", 0), [3, 2, 1])
    assert states(cluster)[0] == (1, 3, 8, [3, 2, 1], 15)
    assert b'"partitions":{"0":[1,2,3],' in replicas(cluster)
    assert not {"/admin/reassign_partitions", "/admin/preferred_replica_election"} & cluster.tree.entries.keys()

    offsets_id = zk_schema.parse_id("tCHPgQTATDCsBm_ukXQuYQ")
    cluster.create_topic("__consumer_offsets", [(3, 1, 2), (1, 2, 3), (2, 3, 1)], offsets_id)
    cluster.settle()
    cluster.create_topic("__transaction_state", [(1, 3, 2), (2, 1, 3), (3, 2, 1)])
    cluster.settle()
    cluster.kill(1)
    assert cluster.elect(2)
    cluster.settle()
    assert states(cluster) == [(2, 3, 9, [3, 2], 16), (2, 2, 8, [3, 2], 12), (2, 3, 6, [3, 2], 10)]
    offsets = [(2, 3, 1, [3, 2], 1), (2, 2, 2, [2, 3], 2), (2, 2, 1, [2, 3], 1)]
    assert states(cluster, "__consumer_offsets") == offsets
    transactions = [(2, 3, 2, [3, 2], 2), (2, 2, 1, [2, 3], 1), (2, 3, 1, [3, 2], 1)]
    assert states(cluster, "__transaction_state") == transactions

    restart(cluster, 1)
    assert states(cluster) == [(2, 3, 9, [3, 2, 1], 17), (2, 2, 8, [3, 2, 1], 13), (2, 3, 6, [3, 2, 1], 11)]

    shut_down(cluster, 3)
    shut_down(cluster, 2)
    assert cluster.elect(1)
    cluster.settle()
    assert states(cluster) == [(2, 1, 11, [1], 19), (2, 1, 10, [1], 15), (2, 1, 8, [1], 13)]
    assert shut_down(cluster, 1) == []  # Kafka's answer lists all nine, although no other broker is alive
    assert states(cluster) == [(2, 1, 11, [1], 19), (2, 1, 10, [1], 15), (2, 1, 8, [1], 13)]
    assert zk_schema.decode_controller_epoch(cluster.tree.entries["/controller_epoch"].data) == 3
    return cluster


def test_a_cluster_of_release_2_7() -> None:
    """A rolling upgrade: brokers of 3.9.2 and 2.7.2 with inter.broker.protocol.version=2.7."""
    cluster = SmallCluster(ControllerSettings(InterBrokerProtocol.parse("2.7")))
    cluster.start(1, 2, 3)
    cluster.elect(1)
    cluster.create_topic("t", [(2, 3, 1), (3, 1, 2)], NO_TOPIC_ID)
    cluster.settle()
    no_id = b'{"partitions":{"0":[2,3,1],"1":[3,1,2]},"adding_replicas":{},"removing_replicas":{},"version":3}'
    assert replicas(cluster, "t") == no_id
    assert states(cluster, "t") == [(1, 2, 0, [2, 3, 1], 0), (1, 3, 0, [3, 1, 2], 0)]
    cluster.kill(2)
    cluster.settle()
    assert states(cluster, "t") == [(1, 3, 1, [3, 1], 1), (1, 3, 1, [3, 1], 1)]
    restart(cluster, 2)
    prefer(cluster, ("t", 0))
    assert states(cluster, "t") == [(1, 2, 2, [3, 1, 2], 3), (1, 3, 1, [3, 1, 2], 2)]
    shut_down(cluster, 1)
    cluster.elect(2)
    cluster.settle()
    assert states(cluster, "t") == [(1, 2, 3, [3, 2], 4), (1, 3, 2, [3, 2], 3)]
    restart(cluster, 1)
    assert states(cluster, "t") == [(2, 2, 3, [3, 2, 1], 5), (2, 3, 2, [3, 2, 1], 4)]
    assert replicas(cluster, "t") == no_id


def test_all_dead_and_an_unclean_election() -> None:
    cluster = SmallCluster()
    cluster.start(1, 1001)
    cluster.elect(1)
    cluster.create_topic("u", [(1, 1001), (1001, 1), (1, 1001), (1001, 1)])
    cluster.settle()
    cluster.brokers[1].failed.update({("u", 2), ("u", 3)})
    event = zk_schema.encode_log_dir_event(1)
    cluster.tree.apply([Create("/log_dir_event_notification/log_dir_event_0000000000", event)])
    cluster.settle()
    assert states(cluster, "u")[2:] == [(1, 1001, 1, [1001], 1), (1, 1001, 1, [1001], 1)]
    cluster.kill(1001)
    cluster.settle()
    led, leaderless = (1, 1, 1, [1], 1), (1, -1, 2, [1001], 2)
    assert states(cluster, "u") == [led, led, leaderless, leaderless]
    cluster.kill(1)
    cluster.start(1001)
    cluster.elect(1001)
    cluster.settle()
    leaderless, led = (2, -1, 2, [1], 2), (2, 1001, 3, [1001], 3)
    assert states(cluster, "u") == [leaderless, leaderless, led, led]
    cluster.ask(lambda controller: controller.elect_leaders(ElectionKind.UNCLEAN, [("u", 0), ("u", 1)]))
    assert states(cluster, "u") == [led, led, led, led]
    assert [state.recovery for _, state in sorted(cluster.states().items())] == [1, 1, 0, 0]


def test_each_step() -> None:
    live_through()


def test_each_write() -> None:
    """States between the steps are also those that Apache's controller wrote."""
    text = LOG.read_text()
    cluster = live_through()
    for topic, count in (("orders", 3), ("__consumer_offsets", 3), ("__transaction_state", 3)):
        for number in range(count):
            path = f"/brokers/topics/{topic}/partitions/{number}/state"
            recorded = re.findall(re.escape(path) + r"[^{]{1,2}(\{[^}]*\})", text)
            written = [data.decode() for at, data in cluster.tree.history if at == path]
            assert written == recorded
    topics = re.findall(r"(?:create|setData)[: ]/brokers/topics/orders,?(\{.*?\"version\":3\})", text)
    assert [data.decode() for at, data in cluster.tree.history if at == "/brokers/topics/orders"] == topics


def decoded(broker: int, request: BrokerRequest) -> tuple[object, ...]:
    """Return a request in the form of the recorded ones, without the epoch of the broker."""
    if isinstance(request, LeaderAndIsr):
        partitions: Iterable[dict[str, object]] = (
            {
                **common(each.topic, each.number, each.state),
                "TopicId": str(each.topic_id),
                "PartitionEpoch": each.state.partition_epoch,
                "AddingReplicas": list(each.state.adding),
                "RemovingReplicas": list(each.state.removing),
                "IsNew": each.is_new,
                "LeaderRecoveryState": int(each.state.recovery),
            }
            for each in request.partitions
        )
        brokers = request.live_leaders
    elif isinstance(request, UpdateMetadata):
        partitions = (
            {
                **common(each.topic, each.number, each.state),
                "TopicId": str(each.topic_id),
                "ZkVersion": each.state.partition_epoch,
                "OfflineReplicas": list(each.offline_replicas),
            }
            for each in request.partitions
        )
        brokers = request.live_brokers
    else:
        partitions = (
            {
                "TopicName": each.topic,
                "PartitionIndex": each.number,
                "LeaderEpoch": each.leader_epoch,
                "DeletePartition": each.delete,
            }
            for each in request.replicas
        )
        brokers = ()
    head = type(request).__name__, broker, request.controller_id, request.controller_epoch
    return *head, ordered(partitions), sorted(each.id for each in brokers)


def common(topic: str, number: int, state: PartitionState) -> dict[str, object]:
    return {
        "TopicName": topic,
        "PartitionIndex": number,
        "ControllerEpoch": state.controller_epoch,
        "Leader": state.leader,
        "LeaderEpoch": state.leader_epoch,
        "Isr": list(state.isr),
        "Replicas": list(state.replicas),
    }


def recorded(sample: dict[str, Any]) -> tuple[object, ...]:
    request = sample["decoded"]
    partitions = [
        {**partition, **{name: value for name, value in topic.items() if name != "PartitionStates"}}
        for topic in request["TopicStates"]
        for partition in topic["PartitionStates"]
    ]
    brokers = [
        each.get("Id", each.get("BrokerId")) for each in request.get("LiveBrokers", request.get("LiveLeaders", []))
    ]
    head = sample["api"], int(sample["to"][1:]), request["ControllerId"], request["ControllerEpoch"]
    return *head, ordered(partitions), sorted(brokers)


def ordered(partitions: Iterable[dict[str, object]]) -> list[str]:
    return sorted(json.dumps(partition, sort_keys=True) for partition in partitions)


COALESCED = [
    ("b2", 12),  # metadata of the new leader, before that of the shrunk ISRs
    ("b1", 59),  # a replica is stopped, before it is stopped and deleted
    ("b2", 1),  # a new controller repeats the states of its predecessor, before it changes them
]
"""Requests that Apache's controller sends in an event's middle; ours sends one at the end."""


def test_each_request() -> None:
    """Brokers learn from our controller what they learned from Apache's."""
    cluster = live_through()
    sent = [decoded(*each) for each in cluster.earlier_requests + cluster.channels.log]
    compared = 0
    for line in REQUESTS.read_text().splitlines():
        sample = json.loads(line)
        is_request = sample["kind"] == "req" and sample["api"] in ("LeaderAndIsr", "UpdateMetadata", "StopReplica")
        if sample["label"] == "IBP 3.9" and is_request and (sample["to"], sample["corr"]) not in COALESCED:
            assert recorded(sample) in sent, sample["decoded"]
            compared += 1
    assert compared > 8
