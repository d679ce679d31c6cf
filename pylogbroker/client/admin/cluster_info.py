"""The cluster: brokers, controller, the quorum of KRaft's controllers, features."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from enum import IntEnum, StrEnum
from typing import Final

import attrs

from pylogbroker import __version__
from pylogbroker.client import arguments
from pylogbroker.client.admin.routing import Router, deferred, outcome
from pylogbroker.errors import CorruptRecords, KafkaError
from pylogbroker.rpc.errors import raise_for
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.wire import EncodingError, UnsupportedVersion
from pylogbroker.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from pylogbroker.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from pylogbroker.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    QuorumPartition,
    QuorumReplica,
    QuorumTopic,
)
from pylogbroker.wire.messages.metadata import MetadataRequest, MetadataResponse
from pylogbroker.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse

_METADATA_TOPIC: Final = "__cluster_metadata"
_LEVEL_MAX: Final = (1 << 15) - 1


class UpgradeType(IntEnum):
    """Changes of a feature's level that are allowed; an unsafe downgrade may lose metadata."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


@attrs.frozen
class BrokerDescription:
    broker_id: int
    host: str
    port: int
    rack: str | None


@attrs.frozen
class BrokerMembership:
    """A broker of a cluster of KRaft controllers; `epoch` is None in the answer of Apache Kafka."""

    broker: BrokerDescription
    is_fenced: bool
    epoch: int | None


@attrs.frozen
class ClusterDescription:
    """`controller` is None while there is none."""

    cluster_id: str | None
    controller: int | None
    brokers: tuple[BrokerDescription, ...]


@attrs.frozen
class FeatureLevels:
    """Levels that a broker supports, and the one that the cluster has agreed on: None before it has."""

    lowest: int
    highest: int
    finalized: int | None


class QuorumRole(StrEnum):
    LEADER = "leader"
    VOTER = "voter"
    OBSERVER = "observer"


@attrs.frozen
class QuorumMember:
    """A controller, which is the leader or a voter, or a broker, which is an observer of the metadata log.

    `lag` is the number of records that it has not fetched. Times are in ms since 1970, None if they are not known.
    """

    node_id: int
    role: QuorumRole
    address: str | None
    log_end_offset: int
    lag: int
    last_fetch_ms: int | None
    last_caught_up_ms: int | None


@attrs.frozen
class QuorumDescription:
    """`leader` is the active controller, None while there is none."""

    leader: int | None
    leader_epoch: int
    high_watermark: int
    members: tuple[QuorumMember, ...]


@attrs.frozen(eq=False, repr=False)
class ClusterInfoAdmin:
    _router: Router

    @deferred
    async def describe(self) -> ClusterDescription:
        response: MetadataResponse = await self._router.anywhere(MetadataRequest([], allow_auto_topic_creation=False))
        brokers = [
            BrokerDescription(broker.node_id, broker.host, broker.port, broker.rack) for broker in response.brokers
        ]
        controller = response.controller_id if response.controller_id >= 0 else None
        return ClusterDescription(response.cluster_id, controller, tuple(sorted(brokers, key=lambda it: it.broker_id)))

    @deferred
    async def quorum(self) -> QuorumDescription | None:
        """Return the controllers' quorum with those who read its log; None of a cluster without KRaft controllers."""
        request = DescribeQuorumRequest([QuorumTopic(_METADATA_TOPIC, [QuorumPartition(0)])])
        try:
            response: DescribeQuorumResponse = await self._router.anywhere(request)
        except UnsupportedVersion:
            return None
        return described_quorum(response)

    @deferred
    async def members(self) -> dict[int, BrokerMembership]:
        """Return the registered brokers by number; those that are fenced only if a broker of Kafka 4 answers."""
        for has_fenced in (True, False):
            request = DescribeClusterRequest(include_fenced_brokers=has_fenced, with_epochs=True)
            with suppress(UnsupportedVersion, EncodingError):
                response: DescribeClusterResponse = await self._router.anywhere(request)
                raise_for(response.error_code, response.error_message)
                return {
                    broker.broker_id: BrokerMembership(
                        BrokerDescription(broker.broker_id, broker.host, broker.port, broker.rack),
                        broker.is_fenced,
                        broker.epoch if broker.epoch >= 0 else None,
                    )
                    for broker in response.brokers
                }
        return {}

    @deferred
    async def may_describe(self) -> bool:
        """Return whether this user may describe the cluster; others see only what ACLs name. True if it is unknown."""
        try:
            response: DescribeClusterResponse = await self._router.anywhere(DescribeClusterRequest(True))
        except UnsupportedVersion:
            return True
        operations = response.cluster_authorized_operations
        return bool(response.error_code) or operations < 0 or bool(operations >> AclOperation.DESCRIBE & 1)

    @deferred
    async def features(self) -> dict[str, FeatureLevels]:
        """Return features by name, as one broker knows them."""
        response: ApiVersionsResponse = await self._router.anywhere(ApiVersionsRequest("pylogbroker", __version__))
        raise_for(response.error_code)
        agreed = {feature.name: feature.max_version_level for feature in response.finalized_features}
        return {
            feature.name: FeatureLevels(feature.min_version, feature.max_version, agreed.get(feature.name))
            for feature in response.supported_features
        }

    @deferred
    async def update_features(
        self, levels: Mapping[str, int], kind: UpgradeType = UpgradeType.UPGRADE, *, validate_only: bool = False
    ) -> None:
        """Set features' finalized levels; 0 removes one."""

        def make(names: Sequence[str]) -> UpdateFeaturesRequest:
            updates = [FeatureUpdateKey(name, levels[name], upgrade_type=kind) for name in names]
            return UpdateFeaturesRequest(self._router.timeout_ms, updates, validate_only)

        def read(response: UpdateFeaturesResponse) -> Iterator[tuple[str, KafkaError | None]]:
            errors = {result.feature: (result.error_code, result.error_message) for result in response.results}
            for name in levels:
                code, message = errors.get(name, (0, None))
                yield (
                    name,
                    outcome(f"feature {name}", response.error_code or code, response.error_message or message, None),
                )

        for level in arguments.by_key("levels", levels, "{'metadata.version': 25}").values():
            arguments.number("levels", level, 0, _LEVEL_MAX)
        await self._router.ask(self._router.controller(), levels, make, read)


def described_quorum(response: DescribeQuorumResponse) -> QuorumDescription:
    """Return the quorum of an answer; raise KafkaError."""
    raise_for(response.error_code, response.error_message)
    try:
        partition = response.topics[0].partitions[0]
    except IndexError:
        raise CorruptRecords("an answer to DescribeQuorum has no partition") from None
    raise_for(partition.error_code, partition.error_message)
    leader = partition.leader_id
    addresses = {
        node.node_id: f"{node.listeners[0].host}:{node.listeners[0].port}" for node in response.nodes if node.listeners
    }
    end = max((voter.log_end_offset for voter in partition.current_voters if voter.replica_id == leader), default=0)

    def member(replica: QuorumReplica, role: QuorumRole) -> QuorumMember:
        number, times = replica.replica_id, (replica.last_fetch_timestamp, replica.last_caught_up_timestamp)
        fetched, caught_up = (time if time >= 0 else None for time in times)
        lag = max(0, end - replica.log_end_offset)
        return QuorumMember(number, role, addresses.get(number), replica.log_end_offset, lag, fetched, caught_up)

    voters = (
        member(voter, QuorumRole.LEADER if voter.replica_id == leader else QuorumRole.VOTER)
        for voter in partition.current_voters
    )
    observers = (member(observer, QuorumRole.OBSERVER) for observer in partition.observers)
    return QuorumDescription(
        leader if leader >= 0 else None, partition.leader_epoch, partition.high_watermark, (*voters, *observers)
    )
