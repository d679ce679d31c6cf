"""Offsets of groups follow from one cluster to the other.

    list the groups of the source, and take those that have a checkpoint
      |
      v     for each of them
    read its offsets in both clusters --> decide (`group_offsets`) --> are there members where an offset changes?
                                                                         |
                                       write checkpoints <-- commit <----+

Groups of the classic protocol and of KIP-848 are treated alike. An offset is committed as a program without members
does it, so the coordinator rejects it if a member has joined meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs
from twisted.internet.defer import Deferred, FirstError, ensureDeferred, gatherResults
from twisted.logger import Logger

from pylogbroker.client import AdminClient
from pylogbroker.client.admin.groups import CommittedOffset
from pylogbroker.client.admin.records import EARLIEST
from pylogbroker.client.admin.routing import ItemsFailed
from pylogbroker.errors import ErrorCode, KafkaError, PylogbrokerError
from pylogbroker.interfaces import TopicPartition
from pylogbroker.mirror.checkpoints import Checkpoints
from pylogbroker.mirror.group_offsets import GroupAction, PairedOffsets, Translation, action_for
from pylogbroker.mirror.offset_translation import OffsetTranslation, PartitionTranslation, TranslationFromStart
from pylogbroker.mirror.settings_sync import NameFilter
from pylogbroker.mirror_records.formats import Checkpoint

log = Logger()

EXCLUDED_GROUPS: Final = ("console-consumer-.*", "connect-.*", "__.*")
"""Groups that are left out unless other expressions are configured, as in MirrorMaker 2."""
GROUPS_AT_ONCE: Final = 16
_TYPES: Final = ("", "classic", "consumer")
_PROTOCOL_TYPES: Final = ("", "consumer")
_WITHOUT_MEMBERS: Final = ("Empty", "Dead")
_HAS_MEMBERS: Final = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.STALE_MEMBER_EPOCH,
    }
)
_RIGHTS: Final = frozenset({ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED})

Offsets = Mapping[TopicPartition, CommittedOffset]
Actions = dict[TopicPartition, GroupAction]


@attrs.frozen(eq=False, repr=False)
class GroupCluster:
    """A cluster of the mirror, as its groups are concerned."""

    name: str
    admin: AdminClient
    is_changed: bool
    """Whether offsets are committed here."""

    async def offsets(self, group: str) -> Offsets:
        return await self.admin.groups.offsets(group)

    async def has_members(self, group: str) -> bool:
        description = (await self.admin.groups.describe([group]))[group]
        return description.state not in _WITHOUT_MEMBERS


@attrs.define
class GroupSyncCounts:
    runs: int = 0
    groups: int = 0
    """Groups of the last run."""
    to_target: int = 0
    to_source: int = 0
    """Offsets committed since the start."""


@attrs.define(eq=False, repr=False)
class GroupSync:
    """Checkpoints are by the target's topics; `back` gets those of groups that moved back to the source."""

    _source: GroupCluster
    _target: GroupCluster
    _filter: NameFilter
    _translation: OffsetTranslation
    _checkpoints: Checkpoints
    _back: Checkpoints
    counts: GroupSyncCounts = attrs.field(factory=GroupSyncCounts)
    _troubles: dict[str, str] = attrs.field(factory=dict)
    """The last error of each group, which is logged once."""
    _without_rights: set[str] = attrs.field(factory=set)
    """Clusters in which the mirror has no right to commit."""

    async def run(self, topics: Mapping[str, str]) -> None:
        """Let all groups follow, by the target's name of each source topic."""
        names = await self._groups()
        self.counts.groups = len(names)
        for start in range(0, len(names), GROUPS_AT_ONCE):
            works: list[Deferred[None]] = [
                ensureDeferred(self._follow_or_log(name, topics)) for name in names[start : start + GROUPS_AT_ONCE]
            ]
            try:
                await gatherResults(works, consumeErrors=True)
            except FirstError as error:
                error.subFailure.raiseException()
        self.counts.runs += 1

    async def _groups(self) -> list[str]:
        listed = await self._source.admin.groups.list()
        names = {
            listing.group
            for listing in listed
            if listing.type.lower() in _TYPES and listing.protocol_type in _PROTOCOL_TYPES
        }
        names.update(self._checkpoints.groups())
        return sorted(name for name in names if name and self._filter.matches(name))

    async def _follow_or_log(self, group: str, topics: Mapping[str, str]) -> None:
        try:
            await self._follow(group, topics)
            self._troubles.pop(group, None)
        except PylogbrokerError as error:
            text = str(error)
            if self._troubles.get(group) != text:
                self._troubles[group] = text
                log.warn("offsets of group {group} do not follow now: {error}", group=group, error=text)

    async def _follow(self, group: str, topics: Mapping[str, str]) -> None:
        of_source, of_target = await self._source.offsets(group), await self._target.offsets(group)
        pairs = self._pairs(group, of_source, of_target, topics)
        translations = await self._translations(pairs, topics)
        first = _actions(pairs, translations, self._source.is_changed, self._target.is_changed)
        if not first:
            return
        may_change_source = may_change_target = False
        if any(action.to_source is not None for action in first.values()):
            may_change_source = not await self._source.has_members(group)
        if any(action.to_target is not None for action in first.values()):
            may_change_target = not await self._target.has_members(group)
        actions = _actions(pairs, translations, may_change_source, may_change_target)
        metadata = {partition: of_source[partition].metadata for partition in actions if partition in of_source}
        await self._carry_out(group, topics, actions, metadata)

    def _pairs(
        self, group: str, of_source: Offsets, of_target: Offsets, topics: Mapping[str, str]
    ) -> dict[TopicPartition, PairedOffsets]:
        """Return offsets by the source's partition, of mirrored topics alone."""
        checkpoints = self._checkpoints.of(group)
        upstream_names = {target: source for source, target in topics.items()}
        partitions = {partition for partition in of_source if partition[0] in topics}
        partitions |= {(upstream_names[topic], number) for topic, number in checkpoints if topic in upstream_names}
        pairs: dict[TopicPartition, PairedOffsets] = {}
        for topic, number in partitions:
            target_partition = topics[topic], number
            pairs[topic, number] = PairedOffsets(
                _offset(of_source.get((topic, number))),
                _offset(of_target.get(target_partition)),
                checkpoints.get(target_partition),
            )
        return pairs

    async def _translations(
        self, pairs: Mapping[TopicPartition, PairedOffsets], topics: Mapping[str, str]
    ) -> dict[TopicPartition, Translation]:
        """Return what translates offsets of partitions; a group that is far behind begins at the target's first one."""
        maps = {partition: runs for partition in pairs if (runs := self._translation.find(partition)) is not None}
        far_behind = {
            (topics[topic], number): (topic, number)
            for (topic, number), runs in maps.items()
            if _is_far_behind(pairs[topic, number], runs)
        }
        translations: dict[TopicPartition, Translation] = dict(maps)
        if far_behind:
            starts = await self._target.admin.records.offsets(dict.fromkeys(far_behind, EARLIEST))
            for target_partition, listed in starts.items():
                partition = far_behind[target_partition]
                translations[partition] = TranslationFromStart(maps[partition], listed.or_end(0))
        return translations

    async def _carry_out(
        self, group: str, topics: Mapping[str, str], actions: Actions, metadata: Mapping[TopicPartition, str]
    ) -> None:
        to_target = {
            (topics[topic], number): CommittedOffset(action.to_target, metadata=metadata.get((topic, number), ""))
            for (topic, number), action in actions.items()
            if action.to_target is not None
        }
        to_source = {
            partition: CommittedOffset(action.to_source)
            for partition, action in actions.items()
            if action.to_source is not None
        }
        in_target = await self._commit(self._target, group, to_target)
        in_source = await self._commit(self._source, group, to_source)
        self.counts.to_target += len(in_target or ())
        self.counts.to_source += len(in_source or ())
        for (topic, number), action in actions.items():
            target_partition = topics[topic], number
            is_missing = action.to_target is not None and in_target is not None and target_partition not in in_target
            if is_missing or (action.to_source is not None and (topic, number) not in (in_source or ())):
                continue
            note = metadata.get((topic, number), "")
            self._checkpoints.add(Checkpoint(group, *target_partition, action.upstream, action.downstream, note))
            if action.to_source is not None:
                self._back.add(Checkpoint(group, topic, number, action.downstream, action.upstream))

    async def _commit(self, cluster: GroupCluster, group: str, offsets: Offsets) -> frozenset[TopicPartition] | None:
        """Commit; return the partitions without those of members that have just joined. None without the right to."""
        if not offsets:
            return frozenset()
        try:
            await cluster.admin.groups.alter_offsets(group, offsets)
        except ItemsFailed as failed:
            others = [error for error in failed.errors.values() if not _is_of_members(error)]
            if others:
                raise others[0] from failed
            return frozenset(offsets.keys() - failed.errors.keys())
        except KafkaError as error:
            if error.code in _RIGHTS:
                self._warn_of_rights(cluster, error)
                return None
            if not _is_of_members(error):
                raise
            return frozenset()
        return frozenset(offsets)

    def _warn_of_rights(self, cluster: GroupCluster, error: KafkaError) -> None:
        if cluster.name not in self._without_rights:
            self._without_rights.add(cluster.name)
            log.warn(
                "offsets of groups are not committed in {cluster}: the mirror's user needs the right to read the groups"
                " there ({error})",
                cluster=cluster.name,
                error=str(error),
            )


def _actions(
    pairs: Mapping[TopicPartition, PairedOffsets],
    translations: Mapping[TopicPartition, Translation],
    may_change_source: bool,
    may_change_target: bool,
) -> Actions:
    actions: Actions = {}
    for partition, translation in translations.items():
        action = action_for(
            pairs[partition], translation, may_change_source=may_change_source, may_change_target=may_change_target
        )
        if action is not None:
            actions[partition] = action
    return actions


def _is_far_behind(offsets: PairedOffsets, runs: PartitionTranslation) -> bool:
    """Return whether a group is before all offsets that are known, and has not followed yet."""
    if offsets.source is None or not runs.is_before_known(offsets.source):
        return False
    last = offsets.checkpoint
    return offsets.target is None or last is None or last.upstream != offsets.source


def _is_of_members(error: Exception) -> bool:
    return isinstance(error, KafkaError) and error.code in _HAS_MEMBERS


def _offset(committed: CommittedOffset | None) -> int | None:
    return None if committed is None else committed.offset
