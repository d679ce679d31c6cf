"""Versions of `inter.broker.protocol.version` (IBP): what brokers send each other, and write to the coordination tree.

Brokers send most requests to each other without negotiating: all have the same IBP, which fixes the versions. Only
requests to the controller negotiate, up to the IBP's version. AddPartitionsToTxn between brokers negotiates, too, and
depends on no IBP. The tables are those of Kafka's MetadataVersion, ControllerChannelManager and AlterPartitionManager.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final, NamedTuple

_FETCH: Final = 1
_ALTER_PARTITION: Final = 56
_ALLOCATE_PRODUCER_IDS: Final = 67
_NEGOTIATED: Final = (_ALTER_PARTITION, _ALLOCATE_PRODUCER_IDS)

_VERSIONS: Final[Mapping[int, Mapping[tuple[int, int, int], int]]] = {
    _FETCH: {(2, 7, 0): 11, (2, 7, 1): 12, (3, 1, 0): 13, (3, 5, 0): 14, (3, 5, 1): 15, (3, 7, 4): 16, (3, 9, 0): 17},
    2: {(2, 7, 0): 5, (2, 8, 0): 6, (3, 0, 1): 7, (3, 5, 0): 8, (3, 9, 0): 9},  # ListOffsets
    4: {(2, 7, 0): 4, (2, 8, 1): 5, (3, 2, 0): 6, (3, 4, 0): 7},  # LeaderAndIsr
    5: {(2, 7, 0): 3, (3, 4, 0): 4},  # StopReplica
    6: {(2, 7, 0): 6, (2, 8, 1): 7, (3, 4, 0): 8},  # UpdateMetadata
    7: {(2, 7, 0): 3},  # ControlledShutdown
    23: {(2, 7, 0): 3, (2, 8, 0): 4},  # OffsetForLeaderEpoch
    27: {(2, 7, 0): 0, (2, 8, 0): 1},  # WriteTxnMarkers
    _ALTER_PARTITION: {(2, 7, 2): 1, (2, 8, 0): 3},  # up to this version, negotiated
    _ALLOCATE_PRODUCER_IDS: {(3, 0, 0): 0},  # up to this version, negotiated
}
"""By API key, the versions, each with the IBP from which on it is sent."""

_FETCH_BY_NAME: Final = 12
_ALTER_PARTITION_BY_NAME: Final = 1


EXPECTED: Final = "a version of Kafka from 2.7 to 3.9, as 3.9 or 2.7-IV2"


class UnknownProtocolVersion(ValueError):
    """A text is no IBP, or one that is not supported; the message says which are, and what to do."""


class InterBrokerProtocol(NamedTuple):
    """An IBP, ordered as Kafka orders them: 2.7-IV2 has step 2."""

    major: int
    minor: int
    step: int

    @classmethod
    def parse(cls, text: str) -> InterBrokerProtocol:
        """Parse a version as Kafka does: 2.7 is its last step 2.7-IV2, 3.9.2 is 3.9-IV0.

        Raise UnknownProtocolVersion.
        """
        parts = text.split(".")
        release = ".".join(parts[:2]) if any(parts[2:]) else text
        version = _BY_TEXT.get(release)
        if version is None:
            raise UnknownProtocolVersion(_expected(parts))
        return version

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}-IV{self.step}"

    def version_of(self, api_key: int) -> int:
        """Return the version of a request; raise LookupError if no IBP fixes it, or this one does not have it."""
        return _version_of(self, api_key)

    @property
    def fixed_versions(self) -> dict[int, int]:
        """Versions by API key of the requests that are sent without a negotiation."""
        return {api_key: self.version_of(api_key) for api_key in _VERSIONS if api_key not in _NEGOTIATED}

    def fetch_version(self, *, has_topic_ids: bool) -> int:
        """Return the version of a follower's fetch, which names topics if one of them has no id."""
        version = self.version_of(_FETCH)
        return version if has_topic_ids else min(version, _FETCH_BY_NAME)

    def alter_partition_version_max(self, *, has_topic_ids: bool) -> int:
        """Return the bound of AlterPartition's negotiated version, which names topics if one of them has no id."""
        version = self.version_of(_ALTER_PARTITION)
        return version if has_topic_ids else min(version, _ALTER_PARTITION_BY_NAME)

    @property
    def truncates_on_fetch(self) -> bool:
        """Followers truncate by a fetch's diverging epoch, without OffsetForLeaderEpoch (KIP-595)."""
        return self >= (2, 7, 1)

    @property
    def has_topic_ids(self) -> bool:
        """Topics have ids in the coordination tree (KIP-516)."""
        return self >= (2, 8, 0)

    @property
    def allocates_producer_ids(self) -> bool:
        """The controller allocates producer ids; below, each broker takes them from the coordination tree (KIP-730)."""
        return self >= (3, 0, 0)

    @property
    def has_leader_recovery_state(self) -> bool:
        """A partition's state remembers an unclean election until its leader has recovered (KIP-704)."""
        return self >= (3, 2, 0)

    @property
    def feature_node_version(self) -> int:
        """Version of the node with the cluster's features (KIP-584, KIP-778)."""
        return 2 if self >= (3, 3, 0) else 1


@cache
def _version_of(protocol: InterBrokerProtocol, api_key: int) -> int:
    versions = [version for first, version in _VERSIONS[api_key].items() if protocol >= first]
    if not versions:
        raise LookupError(f"inter.broker.protocol.version {protocol} has no request of API {api_key}")
    return versions[-1]


_LAST_STEPS: Final = {
    (2, 7): 2,
    (2, 8): 1,
    (3, 0): 1,
    (3, 1): 0,
    (3, 2): 0,
    (3, 3): 3,
    (3, 4): 0,
    (3, 5): 2,
    (3, 6): 2,
    (3, 7): 4,
    (3, 8): 0,
    (3, 9): 0,
}
_FIRST: Final = InterBrokerProtocol(2, 7, 2)
"""Older ones write ISRs to the coordination tree, and truncate by OffsetForLeaderEpoch: neither is offered."""

INTER_BROKER_PROTOCOLS: Final = tuple(
    protocol
    for release, last in _LAST_STEPS.items()
    for protocol in (InterBrokerProtocol(*release, step) for step in range(last + 1))
    if protocol >= _FIRST
)
"""All that are supported, the oldest first."""
NEWEST_PROTOCOL: Final = INTER_BROKER_PROTOCOLS[-1]

_BY_TEXT: Final = {str(version): version for version in INTER_BROKER_PROTOCOLS} | {
    f"{major}.{minor}": InterBrokerProtocol(major, minor, last) for (major, minor), last in _LAST_STEPS.items()
}


def _expected(parts: list[str]) -> str:
    """Say what is expected instead of a text, whose parts these are."""
    try:
        release = int(parts[0]), int(parts[1].partition("-")[0])
    except (ValueError, IndexError):
        return f"expected {EXPECTED}"
    if release < min(_LAST_STEPS):
        return "expected at least 2.7: upgrade the cluster's brokers, then set 2.7 or higher for all of them"
    if release == (_FIRST.major, _FIRST.minor) and parts[1].endswith(("-IV0", "-IV1")):
        return f"expected at least {_FIRST}: earlier brokers change ISRs without the controller, which is not offered"
    if release > max(_LAST_STEPS):
        return "expected at most 3.9: later versions are for clusters without ZooKeeper"
    return f"expected {EXPECTED}"
