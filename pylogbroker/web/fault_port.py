"""Faults of a broker that programs are tested with, as the page uses them. Their code is above this package."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Protocol, TypedDict

CloseMoment = Literal["before", "after", "mid-frame"]


class FaultCriteria(TypedDict, total=False):
    """Requests that a fault or a watch concerns, by their names everywhere."""

    topic: str | None
    partition: int | None
    group: str | None
    transactional_id: str | None
    broker: int | None
    client_id: str | None
    principal: str | None
    sender: Annotated[str | None, "clients, brokers or any; by default clients"]


class FaultFields(FaultCriteria, total=False):
    """Effects of a fault, and the requests that it concerns, by their names everywhere."""

    api: Annotated[str | int | None, "name or key of an API; null is any"]
    error: Annotated[str | int | Sequence[str | int] | None, "names of errors; several are used one after the other"]
    times: Annotated[int | None, "number of requests; null: until the fault is removed"]
    after: Annotated[bool, "the work is done, and its answer replaced"]
    delay: Annotated[float, "seconds before the work, or with `after` before the answer"]
    hold: Annotated[bool, "requests wait for the release"]
    close: Annotated[CloseMoment | None, "when the connection ends"]
    throttle_ms: Annotated[int, "throttle time of the answer"]
    must_fire: Annotated[bool, "a test fails if no request meets the fault"]


class FaultRow(TypedDict):
    """A fault or a watch, as JSON has it."""

    id: int
    description: str
    hits: int
    is_spent: Annotated[bool, "later requests pass"]


class ListedFault(Protocol):
    """Fault that is not removed; its text describes it."""

    @property
    def id(self) -> int: ...
    @property
    def hits(self) -> int: ...
    @property
    def is_spent(self) -> bool:
        """Later requests pass."""

    def release(self) -> None:
        """Let held requests go on, and later ones pass."""

    def remove(self) -> None:
        """Let later requests pass, and held ones go on."""


class FaultPort(Protocol):
    def listed(self) -> Sequence[ListedFault]:
        """Return all faults, also those that the program under test added."""

    def add(self, *arguments: Any, **fields: Any) -> ListedFault:
        """Add a fault; raise ValueError for wrong fields."""


def fault_row(fault: ListedFault) -> FaultRow:
    return {"id": fault.id, "description": str(fault), "hits": fault.hits, "is_spent": fault.is_spent}
