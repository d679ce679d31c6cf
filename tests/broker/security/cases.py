"""Requests of clients that may do little, for this project's broker and Apache Kafka.

Clients differ by their address: each set of ACLs is for another one. There are the topics `seen` and `other` of one
partition, groups `g` and `h` with offsets in both, and the transactional id `x` with an open transaction in both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any
from uuid import UUID

import attrs

from pylogbroker.records import Record, build
from pylogbroker.security.acls.bindings import (
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclPermission,
    AclResourceType,
    ResourcePattern,
)
from pylogbroker.wire import Request, request_codec
from pylogbroker.wire.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_client_quotas,
    alter_configs,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    alter_user_scram_credentials,
    api_versions,
    create_acls,
    create_delegation_token,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_topics,
    describe_acls,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_delegation_token,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_topic_partitions,
    describe_transactions,
    describe_user_scram_credentials,
    elect_leaders,
    end_txn,
    expire_delegation_token,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    renew_delegation_token,
    sync_group,
    txn_offset_commit,
    update_features,
    write_txn_markers,
)

PRINCIPAL = "User:ANONYMOUS"
SUPER_HOST = "127.0.0.1"
"""Its clients may do all; it sets the brokers up."""

_NOT = "not "
TOPICS = ("other", "seen")
SETTINGS: Mapping[str, str] = {
    "allow.everyone.if.no.acl.found": "true",
    "auto.create.topics.enable": "true",
    "log.retention.ms": "-1",  # else Kafka deletes the records, which are old, half a minute after its start
}
EVERYTHING = (
    *((kind, "*") for kind in (AclResourceType.TOPIC, AclResourceType.GROUP, AclResourceType.TRANSACTIONAL_ID)),
    (AclResourceType.CLUSTER, "kafka-cluster"),
)


@attrs.frozen
class Setting:
    """Ids of the topics, and the producer of the open transaction."""

    ids: Mapping[str, UUID]
    producer_id: int


@attrs.frozen
class Case:
    """A request of a client with some ACLs: "READ topic seen", "DESCRIBE cluster"; with "not" in front they deny."""

    name: str
    request: Callable[[Setting], Request]
    versions: tuple[int, ...]
    acls: tuple[str, ...]

    @property
    def host(self) -> str:
        return _HOSTS[self.acls]


def user_of(host: str) -> str:
    """Return the name of the user who connects from a host, where clients have names."""
    return f"user-of-{host}"


def acl_bindings(by_user: bool = False) -> list[AclBinding]:
    """Return the ACLs of all clients: those of `SUPER_HOST` come first. The others' hold for hosts, or for users."""
    everything = [
        AclBinding(
            ResourcePattern(kind, name),
            AccessControlEntry(PRINCIPAL, SUPER_HOST, AclOperation.ALL, AclPermission.ALLOW),
        )
        for kind, name in EVERYTHING
    ]
    clients = {host: (f"User:{user_of(host)}", "*") if by_user else (PRINCIPAL, host) for host in _HOSTS.values()}
    return everything + [_binding(text, *clients[host]) for acls, host in _HOSTS.items() for text in acls]


def _binding(text: str, principal: str, host: str) -> AclBinding:
    permission = AclPermission.DENY if text.startswith(_NOT) else AclPermission.ALLOW
    operation, kind, *name = text.removeprefix(_NOT).split()
    types = {"txn": AclResourceType.TRANSACTIONAL_ID}
    resource = ResourcePattern(types.get(kind) or AclResourceType[kind.upper()], *(name or ["kafka-cluster"]))
    return AclBinding(resource, AccessControlEntry(principal, host, AclOperation[operation], permission))


def batch(setting: Setting | None = None) -> bytes:
    producer = {} if setting is None else {"producer_id": setting.producer_id, "producer_epoch": 0, "base_sequence": 0}
    return build([Record(0, 1_700_000_000_000, None, b"v")], transactional=setting is not None, **producer)


def _both(make: Callable[[str], Any]) -> list[Any]:
    return [make(name) for name in TOPICS]


def _produce(setting: Setting) -> Request:
    return produce.ProduceRequest(
        None, -1, 5000, _both(lambda name: produce.TopicProduceData(name, [produce.PartitionProduceData(0, batch())]))
    )


def _produce_in_transaction(setting: Setting) -> Request:
    data = [produce.PartitionProduceData(0, batch(setting))]
    return produce.ProduceRequest("y", -1, 5000, [produce.TopicProduceData("seen", data)])


def _fetch(by_id: bool, replica: int = -1) -> Callable[[Setting], Request]:
    def make(setting: Setting) -> Request:
        partitions = [fetch.FetchPartition(0, partition_max_bytes=1)]
        topics = _both(
            lambda name: (
                fetch.FetchTopic(topic_id=setting.ids[name], partitions=partitions)
                if by_id
                else fetch.FetchTopic(name, partitions=partitions)
            )
        )
        if not by_id:
            topics.append(fetch.FetchTopic("missing", partitions=partitions))
        return fetch.FetchRequest(replica_id=replica, max_wait_ms=0, min_bytes=0, max_bytes=0, topics=topics)

    return make


def _metadata(*names: str, create: bool = False, asks: tuple[bool, bool]) -> Callable[[Setting], Request]:
    """Return a request for topics, without names for all; `asks` for operations on the cluster, and on topics."""
    topics = [metadata.MetadataRequestTopic(name=name) for name in names] or None
    return lambda setting: metadata.MetadataRequest(topics, create, *asks)


def _metadata_by_id(setting: Setting) -> Request:
    topics = [metadata.MetadataRequestTopic(each, None) for each in (*setting.ids.values(), UUID(int=77))]
    return metadata.MetadataRequest(topics, False, False, True)


def _offset_commit(setting: Setting) -> Request:
    partition = offset_commit.OffsetCommitRequestPartition(0, 5, committed_metadata="")
    return offset_commit.OffsetCommitRequest(
        "g", topics=_both(lambda name: offset_commit.OffsetCommitRequestTopic(name, [partition]))
    )


def _offset_fetch_old(setting: Setting) -> Request:
    return offset_fetch.OffsetFetchRequest("g", _both(lambda name: offset_fetch.OffsetFetchRequestTopic(name, [0])))


def _offset_fetch(all_topics: bool) -> Callable[[Setting], Request]:
    topics = None if all_topics else _both(lambda name: offset_fetch.OffsetFetchRequestTopics(name, [0]))
    groups = [offset_fetch.OffsetFetchRequestGroup(name, topics=topics) for name in ("g", "h")]
    return lambda setting: offset_fetch.OffsetFetchRequest(groups=groups)


def _create_topics(setting: Setting) -> Request:
    named = [create_topics.CreatableTopic(name, 1, 1) for name in ("new-1", "new-2", "twice", "twice")]
    return create_topics.CreateTopicsRequest(named, 5000, True)


def _delete_topics(setting: Setting) -> Request:
    topics = [delete_topics.DeleteTopicState(name) for name in (*TOPICS, "missing")]
    return delete_topics.DeleteTopicsRequest(topics, timeout_ms=5000)


def _delete_topics_by_id(setting: Setting) -> Request:
    topics = [delete_topics.DeleteTopicState(None, each) for each in (*setting.ids.values(), UUID(int=77))]
    return delete_topics.DeleteTopicsRequest(topics, timeout_ms=5000)


def _txn_offset_commit(setting: Setting) -> Request:
    partition = txn_offset_commit.TxnOffsetCommitRequestPartition(0, 5, committed_metadata="")
    topics = _both(lambda name: txn_offset_commit.TxnOffsetCommitRequestTopic(name, [partition]))
    return txn_offset_commit.TxnOffsetCommitRequest("y", "g", setting.producer_id, 0, topics=topics)


def _markers(setting: Setting) -> Request:
    topics = [write_txn_markers.WritableTxnMarkerTopic("seen", [0])]
    return write_txn_markers.WriteTxnMarkersRequest([write_txn_markers.WritableTxnMarker(99, 0, False, topics)])


def _add_partitions(setting: Setting) -> Request:
    topics = _both(lambda name: add_partitions_to_txn.AddPartitionsToTxnTopic(name, [0]))
    return add_partitions_to_txn.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="y",
        v3_and_below_producer_id=setting.producer_id,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=topics,
    )


def _verify_partitions(setting: Setting) -> Request:
    topics = _both(lambda name: add_partitions_to_txn.AddPartitionsToTxnTopic(name, [0]))
    asked = add_partitions_to_txn.AddPartitionsToTxnTransaction("y", setting.producer_id, 0, True, topics)
    return add_partitions_to_txn.AddPartitionsToTxnRequest([asked])


def _configs(make: Callable[[int, str], Any]) -> list[Any]:
    return [make(2, "seen"), make(2, "other"), make(4, "1")]


def _describe_configs(setting: Setting) -> Request:
    return describe_configs.DescribeConfigsRequest(
        _configs(lambda kind, name: describe_configs.DescribeConfigsResource(kind, name, ["retention.ms"]))
    )


def _alter_configs(setting: Setting) -> Request:
    return alter_configs.AlterConfigsRequest(
        _configs(lambda kind, name: alter_configs.AlterConfigsResource(kind, name, [])), True
    )


def _incremental_alter_configs(setting: Setting) -> Request:
    return incremental_alter_configs.IncrementalAlterConfigsRequest(
        _configs(lambda kind, name: incremental_alter_configs.AlterConfigsResource(kind, name, [])), True
    )


def _alter_log_dirs(setting: Setting) -> Request:
    topics = [alter_replica_log_dirs.AlterReplicaLogDirTopic("seen", [0])]
    return alter_replica_log_dirs.AlterReplicaLogDirsRequest(
        [alter_replica_log_dirs.AlterReplicaLogDir("/nowhere", topics)]
    )


def _constant(request: Request) -> Callable[[Setting], Request]:
    return lambda setting: request


def _of_topics(request: type[Any], topic: type[Any], *rest: Any) -> Callable[[Setting], Request]:
    return _constant(request(topics=_both(lambda name: topic(name, *rest))))


_DELETE_RECORDS = delete_records.DeleteRecordsPartition(0, 0)
_LIST_OFFSETS = list_offsets.ListOffsetsPartition(0, timestamp=-1)
_EPOCH = offset_for_leader_epoch.OffsetForLeaderPartition(0, -1, 0)

REQUESTS: Mapping[str, tuple[Callable[[Setting], Request], tuple[int, ...], tuple[tuple[str, ...], ...]]] = {
    # request, versions, sets of ACLs besides none
    "produce": (_produce, (3, 11), (("WRITE topic seen",), ("WRITE topic seen", "WRITE topic other"))),
    "produce in a transaction": (
        _produce_in_transaction,
        (11,),
        (("WRITE topic seen",), ("WRITE txn y",)),
    ),
    "fetch": (_fetch(by_id=False), (4, 12), (("READ topic seen",), ("READ topic seen", "READ topic missing"))),
    "fetch by id": (_fetch(by_id=True), (13,), (("READ topic seen",),)),
    "fetch as a follower": (_fetch(by_id=False, replica=5), (12,), (("READ topic seen",),)),
    "list offsets": (
        _of_topics(list_offsets.ListOffsetsRequest, list_offsets.ListOffsetsTopic, [_LIST_OFFSETS]),
        (1, 9),
        (("DESCRIBE topic seen",), ("READ topic other",)),
    ),
    "metadata of all": (_metadata(asks=(False, False)), (4, 12), (("DESCRIBE topic seen",),)),
    "metadata of all with operations": (
        _metadata(asks=(True, True)),
        (8,),
        (("READ topic seen",), ("DESCRIBE cluster",)),
    ),
    "metadata": (_metadata("seen", "other", "missing", asks=(False, True)), (8, 12), (("DESCRIBE topic seen",),)),
    "metadata with creation": (
        _metadata("missing", "seen", create=True, asks=(False, False)),
        (4, 12),
        (("DESCRIBE topic missing",), ("DESCRIBE topic seen", "CREATE topic missing")),
    ),
    "metadata by id": (_metadata_by_id, (12,), (("DESCRIBE topic seen",),)),
    "offset commit": (_offset_commit, (2, 8), (("READ group g",), ("READ group g", "READ topic seen"))),
    "offset fetch, old": (_offset_fetch_old, (1, 7), (("DESCRIBE group g",), ("DESCRIBE group g", "READ topic seen"))),
    "offset fetch": (_offset_fetch(False), (8,), (("READ group g",), ("READ group g", "DESCRIBE topic seen"))),
    "offset fetch of all": (_offset_fetch(True), (8,), (("READ group g", "DESCRIBE topic seen"),)),
    "find group": (_constant(find_coordinator.FindCoordinatorRequest("g", 0)), (1, 3), (("READ group g",),)),
    "find groups": (
        _constant(find_coordinator.FindCoordinatorRequest(key_type=0, coordinator_keys=["g", "h"])),
        (4,),
        (("DESCRIBE group g",),),
    ),
    "find transactional ids": (
        _constant(find_coordinator.FindCoordinatorRequest(key_type=1, coordinator_keys=["x", "y"])),
        (4,),
        (("WRITE txn x",),),
    ),
    "join group": (_constant(join_group.JoinGroupRequest("n", 10_000, 10_000, "", None, "c")), (0, 6, 9), ()),
    "heartbeat": (_constant(heartbeat.HeartbeatRequest("g", 1, "m")), (4,), (("READ group g",),)),
    "leave group, old": (_constant(leave_group.LeaveGroupRequest("g", "m")), (2,), (("READ group g",),)),
    "leave group": (
        _constant(leave_group.LeaveGroupRequest("g", members=[leave_group.MemberIdentity("m")])),
        (5,),
        (("READ group g",),),
    ),
    "sync group": (
        _constant(sync_group.SyncGroupRequest("g", 1, "m", protocol_type="c", protocol_name="p")),
        (3, 5),
        (("READ group g",),),
    ),
    "describe groups, old": (_constant(describe_groups.DescribeGroupsRequest(["g", "h"])), (0,), ()),
    "describe groups": (
        _constant(describe_groups.DescribeGroupsRequest(["g", "h"], True)),
        (5,),
        (("DESCRIBE group g",), ("READ group g", "DELETE group g")),
    ),
    "list groups": (_constant(list_groups.ListGroupsRequest()), (0, 4), (("DESCRIBE group g",), ("DESCRIBE cluster",))),
    "delete groups": (
        _constant(delete_groups.DeleteGroupsRequest(["missing", "h"])),
        (0, 2),
        (("DELETE group missing",),),
    ),
    "offset delete": (
        _constant(
            offset_delete.OffsetDeleteRequest(
                "h",
                _both(
                    lambda name: offset_delete.OffsetDeleteRequestTopic(
                        name, [offset_delete.OffsetDeleteRequestPartition(7)]
                    )
                ),
            )
        ),
        (0,),
        (("DELETE group h",), ("DELETE group h", "READ topic seen")),
    ),
    "create topics": (
        _create_topics,
        (2, 5),
        (("CREATE topic new-1",), ("CREATE topic new-1", "DESCRIBE_CONFIGS topic new-1")),
    ),
    "delete topics": (_delete_topics, (6,), (("DESCRIBE topic seen", "DESCRIBE topic missing"),)),
    "delete topics by id": (_delete_topics_by_id, (6,), (("DESCRIBE topic seen",),)),
    "delete records": (
        _of_topics(delete_records.DeleteRecordsRequest, delete_records.DeleteRecordsTopic, [_DELETE_RECORDS]),
        (2,),
        (("DELETE topic seen",),),
    ),
    "create partitions": (
        _constant(
            create_partitions.CreatePartitionsRequest(
                _both(lambda name: create_partitions.CreatePartitionsTopic(name, 3)), 5000, True
            )
        ),
        (3,),
        (("ALTER topic seen",),),
    ),
    "init producer id": (
        _constant(init_producer_id.InitProducerIdRequest(None, 60_000)),
        (0, 4),
        (("WRITE topic anything",), ("IDEMPOTENT_WRITE cluster",)),
    ),
    "init transactional id": (
        _constant(init_producer_id.InitProducerIdRequest("z", 60_000)),
        (4,),
        (("WRITE topic anything",), ("WRITE txn z",)),
    ),
    "add partitions to transaction": (
        _add_partitions,
        (0, 3),
        (("WRITE txn y",), ("WRITE txn y", "WRITE topic seen")),
    ),
    "verify partitions": (_verify_partitions, (4,), (("WRITE txn y", "WRITE topic seen"), ("CLUSTER_ACTION cluster",))),
    "add offsets to transaction": (
        lambda setting: add_offsets_to_txn.AddOffsetsToTxnRequest("y", setting.producer_id, 0, "g"),
        (3,),
        (("WRITE txn y",), ("READ group g",)),
    ),
    "end transaction": (
        lambda setting: end_txn.EndTxnRequest("y", setting.producer_id, 0, True),
        (3,),
        (("DESCRIBE txn y",),),
    ),
    "commit offsets in transaction": (
        _txn_offset_commit,
        (3,),
        (("WRITE txn y",), ("WRITE txn y", "READ group g")),
    ),
    "write markers": (_markers, (1,), (("DESCRIBE cluster",), ("ALTER cluster",), ("CLUSTER_ACTION cluster",))),
    "offset for leader epoch": (
        _constant(
            offset_for_leader_epoch.OffsetForLeaderEpochRequest(
                topics=_both(lambda name: offset_for_leader_epoch.OffsetForLeaderTopic(name, [_EPOCH]))
            )
        ),
        (2, 4),
        (("DESCRIBE topic seen",), ("CLUSTER_ACTION cluster",)),
    ),
    "describe producers": (
        _of_topics(describe_producers.DescribeProducersRequest, describe_producers.TopicRequest, [0]),
        (0,),
        (("DESCRIBE topic seen",), ("READ topic other",)),
    ),
    "describe transactions": (
        _constant(describe_transactions.DescribeTransactionsRequest(["x", "y"])),
        (0,),
        (("DESCRIBE txn x",), ("DESCRIBE txn x", "DESCRIBE topic seen")),
    ),
    "list transactions": (_constant(list_transactions.ListTransactionsRequest()), (0,), (("DESCRIBE txn x",),)),
    "describe configs": (
        _describe_configs,
        (4,),
        (("DESCRIBE_CONFIGS topic seen",), ("ALTER_CONFIGS topic seen",)),
    ),
    "alter configs": (_alter_configs, (2,), (("ALTER_CONFIGS topic seen",),)),
    "alter configs incrementally": (_incremental_alter_configs, (1,), (("ALTER_CONFIGS topic seen",),)),
    "describe quotas": (
        _constant(describe_client_quotas.DescribeClientQuotasRequest()),
        (0, 1),
        (("DESCRIBE_CONFIGS cluster",), ("ALTER_CONFIGS cluster",)),
    ),
    "alter quotas": (
        _constant(
            alter_client_quotas.AlterClientQuotasRequest(
                [
                    alter_client_quotas.QuotaAlteration([describe_client_quotas.EntityData("user", name)])
                    for name in ("", None)
                ]
            )
        ),
        (0, 1),
        (("ALTER_CONFIGS cluster",), ("ALTER cluster",)),
    ),
    "describe ACLs": (
        _constant(describe_acls.DescribeAclsRequest(2, "seen", 3, PRINCIPAL, "127.9.9.9", 1, 1)),
        (2,),
        (("DESCRIBE cluster",),),
    ),
    "create ACLs": (
        _constant(create_acls.CreateAclsRequest([create_acls.AclCreation(2, "", 3, "User:a", "*", 3, 3)] * 2)),
        (2,),
        (("DESCRIBE cluster",), ("ALTER cluster",)),
    ),
    "delete ACLs": (
        _constant(
            delete_acls.DeleteAclsRequest([delete_acls.DeleteAclsFilter(2, "t", 3, None, "127.9.9.9", 1, 1)] * 2)
        ),
        (2,),
        (("DESCRIBE cluster",), ("ALTER cluster",)),
    ),
    "describe users": (
        _constant(
            describe_user_scram_credentials.DescribeUserScramCredentialsRequest(
                [describe_user_scram_credentials.UserName("nobody"), describe_user_scram_credentials.UserName("")]
            )
        ),
        (0,),
        (("DESCRIBE cluster",),),
    ),
    "describe all users": (
        _constant(describe_user_scram_credentials.DescribeUserScramCredentialsRequest([])),
        (0,),
        (("ALTER cluster",),),
    ),
    "alter users": (
        _constant(
            alter_user_scram_credentials.AlterUserScramCredentialsRequest(
                [alter_user_scram_credentials.ScramCredentialDeletion("nobody", 1)],
                [alter_user_scram_credentials.ScramCredentialUpsertion("alice", 2, 4095, b"salt", b"salted")],
            )
        ),
        (0,),
        (("DESCRIBE cluster",), ("ALTER cluster",)),
    ),
    "describe log dirs": (_constant(describe_log_dirs.DescribeLogDirsRequest([])), (1, 4), (("READ topic seen",),)),
    "alter log dirs": (_alter_log_dirs, (2,), (("DESCRIBE cluster",), ("ALTER cluster",))),
    "describe cluster": (
        _constant(describe_cluster.DescribeClusterRequest(True)),
        (0, 1),
        (("DESCRIBE cluster",), ("ALTER cluster", "IDEMPOTENT_WRITE cluster")),
    ),
    "describe partitions": (
        _constant(
            describe_topic_partitions.DescribeTopicPartitionsRequest(
                [describe_topic_partitions.TopicRequest(name) for name in (*TOPICS, "missing")]
            )
        ),
        (0,),
        (("DESCRIBE topic seen", "DESCRIBE topic missing"),),
    ),
    "describe partitions of all": (
        _constant(describe_topic_partitions.DescribeTopicPartitionsRequest()),
        (0,),
        (("READ topic seen",),),
    ),
    "elect leaders": (
        _constant(elect_leaders.ElectLeadersRequest(0, [elect_leaders.ElectLeadersTopic("seen", [0])])),
        (0, 2),
        (),
    ),
    "elect all leaders": (_constant(elect_leaders.ElectLeadersRequest(0, None)), (2,), ()),
    "alter reassignments": (
        _constant(
            alter_partition_reassignments.AlterPartitionReassignmentsRequest(
                topics=[
                    alter_partition_reassignments.ReassignableTopic(
                        "seen", [alter_partition_reassignments.ReassignablePartition(0, None)]
                    )
                ]
            )
        ),
        (0,),
        (),
    ),
    "list reassignments": (
        _constant(list_partition_reassignments.ListPartitionReassignmentsRequest(topics=None)),
        (0,),
        (),
    ),
    "update features": (
        _constant(update_features.UpdateFeaturesRequest(feature_updates=[update_features.FeatureUpdateKey("f", 1)])),
        (1,),
        (),
    ),
    "create token": (_constant(create_delegation_token.CreateDelegationTokenRequest("", "")), (0, 3), ()),
    "create another's token": (
        _constant(create_delegation_token.CreateDelegationTokenRequest("User", "bob", max_lifetime_ms=-1)),
        (3,),
        (),
    ),
    "renew token": (_constant(renew_delegation_token.RenewDelegationTokenRequest(b"hmac", -1)), (0, 2), ()),
    "expire token": (_constant(expire_delegation_token.ExpireDelegationTokenRequest(b"hmac", -1)), (0, 2), ()),
    "describe tokens": (_constant(describe_delegation_token.DescribeDelegationTokenRequest(None)), (0, 3), ()),
    "API versions": (_constant(api_versions.ApiVersionsRequest("a", "1")), (3,), ()),
}


def _with_denials(sets: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, ...], ...]:
    """Return sets of ACLs, none among them, and each set with a denial of what its last ACL allows."""
    return ((), *sets, *((*acls, f"{_NOT}{acls[-1]}") for acls in sets))


DENIALS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "describe groups": (("READ group g", "not DESCRIBE group g"), ("DESCRIBE group g", "not READ group g")),
    "delete topics": (("DESCRIBE topic seen", "not DELETE topic seen"),),
    "describe partitions": (("READ topic seen", "not ALL topic seen"), ("READ topic seen", "not DESCRIBE topic *")),
    "describe configs": (("ALTER_CONFIGS topic seen", "not DESCRIBE_CONFIGS topic seen"),),
    "describe cluster": (("DESCRIBE cluster", "not ALTER cluster"),),
    "init producer id": (("WRITE topic anything", "not WRITE topic *"), ("WRITE topic *", "not WRITE topic seen")),
}
"""Sets of ACLs in which a denial is of another operation, or of another name, than what is allowed."""


def all_cases() -> Iterator[Case]:
    for name, (request, versions, sets) in REQUESTS.items():
        for acls in (*_with_denials(sets), *DENIALS.get(name, ())):
            yield Case(f"{name}: {', '.join(acls) or 'nothing'}", request, versions, acls)


_SETS = dict.fromkeys(
    acls for name, (_, _, sets) in REQUESTS.items() for acls in (*_with_denials(sets), *DENIALS.get(name, ()))
)
_HOSTS = {acls: f"127.0.{1 + number // 200}.{1 + number % 200}" for number, acls in enumerate(_SETS)}


def hosts() -> list[str]:
    return list(_HOSTS.values())


def question() -> str:
    """Return all that the brokers are asked, for topics with given ids."""
    setting = Setting({name: UUID(int=number) for number, name in enumerate(TOPICS, 1)}, 1)
    return "\n".join(
        f"{case.name} {version} {request_codec(request.api_key, version).encode(request).hex()}"
        for case in all_cases()
        for version in case.versions
        for request in [case.request(setting)]
    )
