"""Target assignments of groups of Kafka Streams.

`TaskAssignment.of` copies what it needs of a group; `run` may be in any thread.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import attrs

from pylogbroker.assignors.tasks import TaskMember, assign_tasks
from pylogbroker.groups.streams.group import StreamsGroup
from pylogbroker.groups.streams.port import StreamsSettings
from pylogbroker.groups.streams.tasks import Tasks

StreamsTarget = dict[str, Tasks]


@attrs.frozen
class TaskAssignment:
    epoch: int
    _counts: Mapping[str, int]
    _stateful: Collection[str]
    _members: Mapping[str, TaskMember]
    _settings: StreamsSettings

    @classmethod
    def of(cls, group: StreamsGroup, settings: StreamsSettings) -> TaskAssignment:
        members = {}
        for member_id, member in group.members.items():
            target = group.target_of(member_id)
            members[member_id] = TaskMember(
                member.process_id, target.active, target.standby | target.warmup, member.offsets, member.client_tags
            )
        stateful = {
            subtopology.subtopology_id
            for subtopology in group.topology.subtopologies
            if subtopology.state_changelog_topics
        }
        return cls(group.epoch, group.configured.tasks, stateful, members, settings)

    @property
    def size(self) -> int:
        return len(self._members) + sum(self._counts.values()) * (1 + self._settings.standbys)

    def run(self) -> StreamsTarget:
        assigned = assign_tasks(
            self._counts, self._stateful, self._members, self._settings.standbys, self._settings.tag_keys
        )
        return {
            member_id: Tasks(frozenset(tasks.active), frozenset(tasks.standby)) for member_id, tasks in assigned.items()
        }
