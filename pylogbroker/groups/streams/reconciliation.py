"""One step of a member towards its target tasks (the tables are in `states`)."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from pylogbroker.groups.streams.member import StreamsMember
from pylogbroker.groups.streams.states import TaskState
from pylogbroker.groups.streams.tasks import NO_TASKS, Task, Tasks

IsFree = Callable[[Task], bool]


@attrs.frozen
class TaskStep:
    """The member's state after a step."""

    state: TaskState
    epoch: int
    assigned: Tasks
    revoking: Tasks = NO_TASKS


def next_step(
    member: StreamsMember,
    target_epoch: int,
    target: Tasks,
    owned: Tasks | None,
    is_free: IsFree,
    is_free_to_copy: IsFree,
) -> TaskStep | None:
    """Return the member's next step; None if it has to wait, or is where it should be.

    `owned` are the tasks that the client says it has. `is_free` is of active tasks, `is_free_to_copy` of the others.
    """
    epoch = member.epoch
    match member.state:
        case TaskState.STABLE:
            if epoch == target_epoch:
                return None
        case TaskState.UNREVOKED_TASKS:
            if _still_owns(owned, member.revoking):
                return None
            epoch = min(epoch + 1, target_epoch)
        case TaskState.UNRELEASED_TASKS:
            pass
    kept = member.assigned & target
    revoked = member.assigned - kept
    if revoked and _still_owns(owned, revoked):
        return TaskStep(TaskState.UNREVOKED_TASKS, epoch, kept, revoked)
    missing = target - kept
    free = Tasks(
        frozenset(filter(is_free, missing.active)),
        frozenset(filter(is_free_to_copy, missing.standby)),
        frozenset(filter(is_free_to_copy, missing.warmup)),
    )
    state = TaskState.STABLE if free == missing else TaskState.UNRELEASED_TASKS
    return TaskStep(state, target_epoch, kept | free)


def _still_owns(owned: Tasks | None, revoked: Tasks) -> bool:
    """Return whether a client may use some of the tasks: one that does not say what it owns may."""
    return owned is None or bool(owned & revoked)
