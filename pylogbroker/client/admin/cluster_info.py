"""The cluster: brokers, controller, features."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Final

import attrs

from pylogbroker import __version__
from pylogbroker.client import arguments
from pylogbroker.client.admin.routing import Router, deferred, outcome
from pylogbroker.errors import KafkaError
from pylogbroker.rpc.errors import raise_for
from pylogbroker.security.acls.bindings import AclOperation
from pylogbroker.wire import UnsupportedVersion
from pylogbroker.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from pylogbroker.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from pylogbroker.wire.messages.metadata import MetadataRequest, MetadataResponse
from pylogbroker.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse

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
