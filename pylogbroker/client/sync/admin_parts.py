"""Types of the blocking admin client's parts.

This module is made by `python -m tests.client.blocking_parts`. Programs do not import it: a part is a `BlockingPart`.
Each method waits for its result, at most `timeout` seconds. `pylogbroker.client.admin` describes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from pylogbroker.client.admin.acls import Bindings
from pylogbroker.client.admin.cluster_info import (
    BrokerMembership,
    ClusterDescription,
    FeatureLevels,
    QuorumDescription,
    UpgradeType,
)
from pylogbroker.client.admin.configs import ConfigResource, Configs
from pylogbroker.client.admin.group_descriptions import GroupDescription
from pylogbroker.client.admin.groups import CommittedOffset, GroupListing, MemberToRemove
from pylogbroker.client.admin.quotas import AnyName, Entity
from pylogbroker.client.admin.records import ListedOffset
from pylogbroker.client.admin.replicas import ElectionType, LogDirDescription, Reassignments, ReplicaKey
from pylogbroker.client.admin.share_groups import ShareGroupOffset, ShareGroupSummary
from pylogbroker.client.admin.topics import CreatedTopic, NewTopic, TopicDescription, TopicListing
from pylogbroker.client.admin.transactions import ProducerDescription, TransactionDescription, TransactionListing
from pylogbroker.client.admin.users import Credentials
from pylogbroker.config.changes import SettingChange
from pylogbroker.config.mechanisms import SCRAM_SHA_256, SCRAM_SHA_512
from pylogbroker.interfaces import TopicPartition
from pylogbroker.security.acls.bindings import AclBinding, AclFilter
from pylogbroker.security.delegation.tokens import IssuedToken
from pylogbroker.security.sasl.users import ITERATIONS_MIN


class BlockingAclAdmin(Protocol):
    def describe(self, acl_filter: AclFilter | None = None, *, timeout: float | None = None) -> Bindings: ...
    def create(self, bindings: Iterable[AclBinding], *, timeout: float | None = None) -> None: ...
    def delete(self, filters: Iterable[AclFilter], *, timeout: float | None = None) -> dict[AclFilter, Bindings]: ...


class BlockingClusterInfoAdmin(Protocol):
    def describe(self, *, timeout: float | None = None) -> ClusterDescription: ...
    def quorum(self, *, timeout: float | None = None) -> QuorumDescription | None: ...
    def members(self, *, timeout: float | None = None) -> dict[int, BrokerMembership]: ...
    def may_describe(self, *, timeout: float | None = None) -> bool: ...
    def features(self, *, timeout: float | None = None) -> dict[str, FeatureLevels]: ...
    def update_features(
        self,
        levels: Mapping[str, int],
        kind: UpgradeType = UpgradeType.UPGRADE,
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> None: ...


class BlockingConfigAdmin(Protocol):
    def describe(
        self,
        resources: Iterable[ConfigResource],
        names: Sequence[str] | None = None,
        *,
        synonyms: bool = False,
        documentation: bool = False,
        timeout: float | None = None,
    ) -> dict[ConfigResource, Configs]: ...
    def alter(
        self,
        changes: Mapping[ConfigResource, Sequence[SettingChange]],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> None: ...


class BlockingGroupAdmin(Protocol):
    def list(
        self, *, states: Sequence[str] = (), types: Sequence[str] = (), timeout: float | None = None
    ) -> Sequence[GroupListing]: ...
    def describe(self, groups: Iterable[str], *, timeout: float | None = None) -> dict[str, GroupDescription]: ...
    def delete(self, groups: Iterable[str], *, timeout: float | None = None) -> None: ...
    def remove_members(
        self, group: str, members: Iterable[MemberToRemove] | None = None, *, timeout: float | None = None
    ) -> None: ...
    def offsets(
        self,
        group: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        require_stable: bool = False,
        timeout: float | None = None,
    ) -> dict[TopicPartition, CommittedOffset]: ...
    def alter_offsets(
        self, group: str, offsets: Mapping[TopicPartition, int | CommittedOffset], *, timeout: float | None = None
    ) -> None: ...
    def delete_offsets(
        self, group: str, partitions: Iterable[TopicPartition], *, timeout: float | None = None
    ) -> None: ...


class BlockingQuotaAdmin(Protocol):
    def describe(
        self,
        parts: Mapping[str, str | type[AnyName] | None] | None = None,
        *,
        strict: bool = False,
        timeout: float | None = None,
    ) -> dict[Entity, dict[str, float]]: ...
    def alter(
        self,
        quotas: Mapping[Entity, Mapping[str, float | None]],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> None: ...


class BlockingRecordAdmin(Protocol):
    def offsets(
        self, times: Mapping[TopicPartition, int], *, committed: bool = False, timeout: float | None = None
    ) -> dict[TopicPartition, ListedOffset]: ...
    def delete(
        self, before: Mapping[TopicPartition, int], *, timeout: float | None = None
    ) -> dict[TopicPartition, int]: ...


class BlockingReplicaAdmin(Protocol):
    def log_dirs(
        self, brokers: Iterable[int] | None = None, *, timeout: float | None = None
    ) -> dict[int, tuple[LogDirDescription, ...]]: ...
    def alter_log_dirs(self, moves: Mapping[ReplicaKey, str], *, timeout: float | None = None) -> None: ...
    def reassignments(self, *, timeout: float | None = None) -> Reassignments: ...
    def reassign(
        self, replicas: Mapping[TopicPartition, Sequence[int] | None], *, timeout: float | None = None
    ) -> None: ...
    def elect_leaders(
        self,
        partitions: Iterable[TopicPartition],
        kind: ElectionType = ElectionType.PREFERRED,
        *,
        timeout: float | None = None,
    ) -> None: ...


class BlockingShareGroupAdmin(Protocol):
    def describe(self, groups: Iterable[str], *, timeout: float | None = None) -> dict[str, ShareGroupSummary]: ...
    def offsets(
        self, groups: Iterable[str], *, timeout: float | None = None
    ) -> dict[str, dict[TopicPartition, ShareGroupOffset]]: ...
    def alter_offsets(
        self, group: str, offsets: Mapping[TopicPartition, int], *, timeout: float | None = None
    ) -> None: ...
    def delete_offsets(self, group: str, topics: Iterable[str], *, timeout: float | None = None) -> None: ...


class BlockingTokenAdmin(Protocol):
    def create(
        self,
        owner: str | None = None,
        renewers: Iterable[str] = (),
        lifetime_ms: int | None = None,
        *,
        timeout: float | None = None,
    ) -> IssuedToken: ...
    def describe(
        self, owners: Iterable[str] | None = None, *, timeout: float | None = None
    ) -> tuple[IssuedToken, ...]: ...
    def renew(self, hmac: bytes, period_ms: int | None = None, *, timeout: float | None = None) -> int: ...
    def expire(self, hmac: bytes, period_ms: int | None = None, *, timeout: float | None = None) -> int: ...


class BlockingTopicAdmin(Protocol):
    def list(self, *, include_internal: bool = False, timeout: float | None = None) -> Sequence[TopicListing]: ...
    def describe(self, names: Iterable[str], *, timeout: float | None = None) -> dict[str, TopicDescription]: ...
    def create(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False, timeout: float | None = None
    ) -> dict[str, CreatedTopic]: ...
    def delete(self, names: Iterable[str], *, timeout: float | None = None) -> None: ...
    def add_partitions(
        self,
        totals: Mapping[str, int],
        *,
        assignments: Mapping[str, Sequence[Sequence[int]]] | None = None,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> None: ...


class BlockingTransactionAdmin(Protocol):
    def list(
        self,
        *,
        states: Sequence[str] = (),
        producer_ids: Sequence[int] = (),
        longer_than_ms: int = -1,
        timeout: float | None = None,
    ) -> Sequence[TransactionListing]: ...
    def describe(
        self, transactional_ids: Iterable[str], *, timeout: float | None = None
    ) -> dict[str, TransactionDescription]: ...
    def fence(
        self, transactional_ids: Iterable[str], *, timeout: float | None = None
    ) -> dict[str, tuple[int, int]]: ...
    def abort(
        self,
        partition: TopicPartition,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int = 0,
        *,
        timeout: float | None = None,
    ) -> None: ...
    def producers(
        self, partitions: Iterable[TopicPartition], *, timeout: float | None = None
    ) -> dict[TopicPartition, tuple[ProducerDescription, ...]]: ...


class BlockingUserAdmin(Protocol):
    def describe(
        self, names: Iterable[str] | None = None, *, timeout: float | None = None
    ) -> dict[str, Credentials]: ...
    def set_password(
        self,
        name: str,
        password: str,
        mechanisms: Iterable[str] = (SCRAM_SHA_256, SCRAM_SHA_512),
        iterations: int = ITERATIONS_MIN,
        *,
        timeout: float | None = None,
    ) -> None: ...
    def delete(self, name: str, mechanisms: Iterable[str] | None = None, *, timeout: float | None = None) -> None: ...
