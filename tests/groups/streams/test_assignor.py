"""The sticky assignor of tasks against its rules, for any members, processes and former assignments."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from pylogbroker.assignors.tasks import AssignedTasks, TaskId, TaskMember, assign_tasks

SUBTOPOLOGIES = ("0", "1", "2")
STATEFUL = ("0", "2")
COUNTS = st.fixed_dictionaries({name: st.integers(0, 6) for name in SUBTOPOLOGIES})
PROCESSES = st.lists(st.integers(1, 3), min_size=1, max_size=4)
"""Numbers of threads of each process."""
STANDBYS = st.integers(0, 2)


def members_of(processes: list[int], former: dict[str, AssignedTasks] | None = None) -> dict[str, TaskMember]:
    members = {}
    for process, threads in enumerate(processes):
        for thread in range(threads):
            name = f"p{process}-{thread}"
            tasks = (former or {}).get(name, AssignedTasks())
            members[name] = TaskMember(f"p{process}", frozenset(tasks.active), frozenset(tasks.standby))
    return members


def all_tasks(counts: dict[str, int], names: tuple[str, ...] = SUBTOPOLOGIES) -> set[TaskId]:
    return {(name, number) for name in names for number in range(counts[name])}


def check_rules(
    counts: dict[str, int], members: dict[str, TaskMember], standbys: int, assigned: dict[str, AssignedTasks]
) -> None:
    assert assigned.keys() == members.keys()
    active = Counter(task for tasks in assigned.values() for task in tasks.active)
    assert active == Counter(all_tasks(counts))  # each has one owner
    copies = min(standbys, len({member.process_id for member in members.values()}) - 1)
    standby = Counter(task for tasks in assigned.values() for task in tasks.standby)
    assert standby == Counter({task: copies for task in all_tasks(counts, STATEFUL) if copies})
    holders = Counter(
        (members[name].process_id, task) for name, tasks in assigned.items() for task in (*tasks.active, *tasks.standby)
    )
    assert all(number == 1 for number in holders.values())  # a process has a task once
    for names in (SUBTOPOLOGIES, STATEFUL):
        numbers = [len(tasks.active & all_tasks(counts, names)) for tasks in assigned.values()]
        assert max(numbers) - min(numbers) <= 1


@given(counts=COUNTS, processes=PROCESSES, standbys=STANDBYS)
def test_new_assignment_keeps_the_rules(counts: dict[str, int], processes: list[int], standbys: int) -> None:
    members = members_of(processes)
    check_rules(counts, members, standbys, assign_tasks(counts, STATEFUL, members, standbys))


@given(counts=COUNTS, before=PROCESSES, after=PROCESSES, standbys=STANDBYS)
def test_changed_members_keep_what_they_had_up_to_their_part(
    counts: dict[str, int], before: list[int], after: list[int], standbys: int
) -> None:
    former = assign_tasks(counts, STATEFUL, members_of(before), standbys)
    members = members_of(after, former)
    assigned = assign_tasks(counts, STATEFUL, members, standbys)
    check_rules(counts, members, standbys, assigned)
    with_state = all_tasks(counts, STATEFUL)
    owned = sorted((len(members[name].active & with_state) for name in members), reverse=True)
    base, extra = divmod(len(with_state), len(members))
    most = sum(min(number, base + (place < extra)) for place, number in enumerate(owned))
    assert sum(len(assigned[name].active & members[name].active & with_state) for name in members) == most


@given(counts=COUNTS, processes=PROCESSES)
def test_nothing_moves_while_nothing_changes(counts: dict[str, int], processes: list[int]) -> None:
    former = assign_tasks(counts, STATEFUL, members_of(processes))
    assert assign_tasks(counts, STATEFUL, members_of(processes, former)) == former


@given(counts=COUNTS, processes=st.integers(2, 5), standbys=STANDBYS)
def test_standbys_stay_while_nothing_changes(counts: dict[str, int], processes: int, standbys: int) -> None:
    alike = [1] * processes
    first = assign_tasks(counts, STATEFUL, members_of(alike), standbys)
    second = assign_tasks(counts, STATEFUL, members_of(alike, first), standbys)
    assert {name: tasks.active for name, tasks in second.items()} == {
        name: tasks.active for name, tasks in first.items()
    }
    assert sum(len(first[name].standby - second[name].standby) for name in first) <= 1


def test_task_goes_to_the_process_that_has_copied_its_state() -> None:
    task = ("0", 0)
    members = {
        "a": TaskMember("p1"),
        "b": TaskMember("p2", copies=frozenset({task}), offsets={task: 5}),
        "c": TaskMember("p3", copies=frozenset({task}), offsets={task: 9}),
        "d": TaskMember("p4", offsets={task: 100}),
    }
    assert assign_tasks({"0": 1}, ["0"], members)["c"].active == {task}
    del members["b"], members["c"]
    assert assign_tasks({"0": 1}, ["0"], members)["d"].active == {task}


def test_copies_are_spread_over_tags() -> None:
    members = {
        f"m{number}": TaskMember(f"p{number}", tags={"zone": zone, "cluster": "k1"})
        for number, zone in enumerate("aaabbb")
    }
    assigned = assign_tasks({"0": 6}, ["0"], members, 1, ("zone", "cluster"))
    check_counts = Counter(len(tasks.standby) for tasks in assigned.values())
    assert sum(number * times for number, times in check_counts.items()) == 6
    zones = {name: member.tags["zone"] for name, member in members.items()}
    for task in all_tasks({"0": 6, "1": 0, "2": 0}):
        assert {zones[name] for name, tasks in assigned.items() if task in tasks.active | tasks.standby} == {"a", "b"}


def test_without_members_there_is_no_assignment() -> None:
    assert assign_tasks({"0": 2}, [], {}) == {}
