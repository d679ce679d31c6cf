"""Sticky assignment of tasks of Kafka Streams (KIP-1071) to members, which are threads of processes.

    step       tasks                       go to
    --------   -------------------------   ----------------------------------------------------------------------------
    active     those with a state, then    the member that had the task as active; else that which copied its state,
               all others                  the most complete copy first; else the member with the fewest tasks
    standby    those with a state, for     processes without the task: one that copied it or had it as active before;
               each copy that is wanted    else that with the fewest tasks

Members have equally many active tasks, and equally many with a state: a difference of one at most. A member keeps what
it had up to its part. A process has a task once. Within that rule, copies are spread evenly over all processes. Before
that counts, they are spread over different values of the tags, such as racks.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import attrs

TaskId = tuple[str, int]
"""Id of the subtopology, and number of the partition."""

_NO_OFFSETS: Final[Mapping[TaskId, int]] = {}


@attrs.frozen
class TaskMember:
    """Member and its former target; `offsets` are of states that its process has on disk."""

    process_id: str
    active: frozenset[TaskId] = frozenset()
    copies: frozenset[TaskId] = frozenset()
    offsets: Mapping[TaskId, int] = _NO_OFFSETS
    tags: Mapping[str, str] = attrs.field(factory=dict)


@attrs.define
class AssignedTasks:
    active: set[TaskId] = attrs.field(factory=set)
    standby: set[TaskId] = attrs.field(factory=set)

    def __len__(self) -> int:
        return len(self.active) + len(self.standby)


def assign_tasks(
    counts: Mapping[str, int],
    stateful: Iterable[str],
    members: Mapping[str, TaskMember],
    standbys: int = 0,
    tag_keys: Sequence[str] = (),
) -> dict[str, AssignedTasks]:
    """Return the tasks of each member. `counts` has the number of tasks of each subtopology."""
    if not members:
        return {}
    with_state = set(stateful)
    assignment = _Assignment.of(members)
    for has_state in (True, False):
        tasks = [
            (subtopology, number)
            for subtopology in sorted(counts)
            if (subtopology in with_state) is has_state
            for number in range(counts[subtopology])
        ]
        assignment.assign_active(tasks)
        if has_state:
            copied = tasks
    if standbys:
        assignment.assign_standbys(copied, standbys, tag_keys)
    return assignment.given


@attrs.define
class _Quota:
    """Members have `base` tasks, `extra` of them one more."""

    base: int
    extra: int

    @classmethod
    def of(cls, total: int, present: Iterable[int]) -> _Quota:
        """Return the quota of `total` tasks, of which members have the present numbers."""
        numbers = list(present)
        base, extra = divmod(total, len(numbers))
        return cls(base, extra - sum(number > base for number in numbers))

    def allows(self, number: int) -> bool:
        return number < self.base or (number == self.base and self.extra > 0)

    def take(self, number: int) -> None:
        """Note that a member with this number of tasks gets one more."""
        if number == self.base:
            self.extra -= 1


@attrs.define(eq=False, repr=False)
class _Assignment:
    members: Mapping[str, TaskMember]
    given: dict[str, AssignedTasks]
    process_sizes: Counter[str]
    process_loads: Counter[str] = attrs.field(factory=Counter)
    holders: dict[TaskId, list[str]] = attrs.field(factory=lambda: defaultdict(list))

    @classmethod
    def of(cls, members: Mapping[str, TaskMember]) -> _Assignment:
        ordered = {name: members[name] for name in sorted(members)}
        return cls(
            ordered,
            {name: AssignedTasks() for name in ordered},
            Counter(member.process_id for member in ordered.values()),
        )

    # -- active tasks --------------------------------------------------------------------------------------------

    def assign_active(self, tasks: Sequence[TaskId]) -> None:
        present = {name: len(given.active) for name, given in self.given.items()}
        quota = _Quota.of(sum(present.values()) + len(tasks), present.values())
        former = {task: name for name, member in self.members.items() for task in member.active}
        rest = [task for task in tasks if not self._keep(task, former.get(task), quota)]
        copiers = self._copiers(rest)
        rest = [task for task in rest if not any(self._keep(task, name, quota) for name in copiers.get(task, ()))]
        least_loaded = _Heap(self.members, lambda name: (len(self.given[name].active), self._process_load(name)))
        for task in rest:
            name = least_loaded.pop()
            self._give_active(task, name, quota)
            least_loaded.push(name)

    def _keep(self, task: TaskId, name: str | None, quota: _Quota) -> bool:
        """Give an active task to a member that has its state, unless it has its part; return whether it got it."""
        if name is None or not quota.allows(len(self.given[name].active)):
            return False
        self._give_active(task, name, quota)
        return True

    def _give_active(self, task: TaskId, name: str, quota: _Quota) -> None:
        quota.take(len(self.given[name].active))
        self.given[name].active.add(task)
        self._note(task, name)

    def _copiers(self, tasks: Iterable[TaskId]) -> dict[TaskId, list[str]]:
        """Return the members that have a copy of a task's state: assigned copies first, the most complete ones first.

        A member that has come back after a restart had no tasks, but may have states on its disk.
        """
        copiers: dict[TaskId, list[str]] = {task: [] for task in tasks}
        for name, member in self.members.items():
            for task in {*member.copies, *member.offsets}:
                if task in copiers:
                    copiers[task].append(name)
        for task, names in copiers.items():
            names.sort(key=lambda name: (task not in self.members[name].copies, -self._offset(name, task)))
        return copiers

    def _offset(self, name: str, task: TaskId) -> int:
        return self.members[name].offsets.get(task, 0)

    # -- standbys ------------------------------------------------------------------------------------------------

    def assign_standbys(self, tasks: Sequence[TaskId], standbys: int, tag_keys: Sequence[str]) -> None:
        copies = min(standbys, len(self.process_sizes) - 1)
        present = [len(given) for given in self.given.values()]
        quota = _Quota.of(sum(present) + copies * len(tasks), present)
        former = {task: name for name, member in self.members.items() for task in member.active}
        missing = []
        all_copiers = self._copiers(tasks)
        for task in tasks:
            candidates = [*all_copiers[task], *([former[task]] if task in former else [])]
            kept = sum(self._keep_copy(task, name, quota, copies, tag_keys) for name in candidates)
            missing += [task] * (copies - kept)
        least_loaded = _Heap(self.members, lambda name: (len(self.given[name]), self._process_load(name)))
        for task in missing:
            name = self._choose(task, tag_keys, least_loaded)
            quota.take(len(self.given[name]))
            self._copy(task, name)
            least_loaded.push(name)

    def _keep_copy(self, task: TaskId, name: str, quota: _Quota, copies: int, tag_keys: Sequence[str]) -> bool:
        """Give a copy to a member that has had the state; return whether it got it."""
        given = self.given[name]
        is_enough = len(self.holders[task]) > copies
        if is_enough or not quota.allows(len(given)) or not self._may_copy(task, name):
            return False
        if tag_keys and self._shared_tags(task, name, tag_keys) > self._fewest_shared_tags(task, tag_keys):
            return False
        quota.take(len(given))
        self._copy(task, name)
        return True

    def _choose(self, task: TaskId, tag_keys: Sequence[str], least_loaded: _Heap) -> str:
        """Take the member for a copy out of the heap: a process without the task has one."""
        fewest = self._fewest_shared_tags(task, tag_keys)
        skipped = []
        while True:
            name = least_loaded.pop()
            if self._may_copy(task, name) and self._shared_tags(task, name, tag_keys) <= fewest:
                break
            skipped.append(name)
        for other in skipped:
            least_loaded.push(other)
        return name

    def _may_copy(self, task: TaskId, name: str) -> bool:
        process_id = self.members[name].process_id
        return all(self.members[holder].process_id != process_id for holder in self.holders[task])

    def _shared_tags(self, task: TaskId, name: str, tag_keys: Sequence[str]) -> int:
        """Return how many tags of a member are those of a member that has the task."""
        tags = self.members[name].tags
        return sum(
            any(self.members[holder].tags.get(key) == tags.get(key) for holder in self.holders[task])
            for key in tag_keys
        )

    def _fewest_shared_tags(self, task: TaskId, tag_keys: Sequence[str]) -> int:
        if not tag_keys:
            return 0
        return min(self._shared_tags(task, name, tag_keys) for name in self.members if self._may_copy(task, name))

    def _copy(self, task: TaskId, name: str) -> None:
        self.given[name].standby.add(task)
        self._note(task, name)

    # -- loads ---------------------------------------------------------------------------------------------------

    def _note(self, task: TaskId, name: str) -> None:
        self.holders[task].append(name)
        self.process_loads[self.members[name].process_id] += 1

    def _process_load(self, name: str) -> float:
        process_id = self.members[name].process_id
        return self.process_loads[process_id] / self.process_sizes[process_id]


class _Heap:
    """Members by a key that only grows; the entries of the heap may be older than the members' keys."""

    def __init__(self, names: Iterable[str], key: Callable[[str], tuple[int, float]]) -> None:
        self._key = key
        self._entries = [(*key(name), name) for name in names]
        heapq.heapify(self._entries)

    def push(self, name: str) -> None:
        heapq.heappush(self._entries, (*self._key(name), name))

    def pop(self) -> str:
        while True:
            *key, name = heapq.heappop(self._entries)
            if tuple(key) == self._key(name):
                return str(name)
            self.push(name)
