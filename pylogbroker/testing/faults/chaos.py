"""Chaos: a reproducible mix of faults that correct clients survive without loss, duplicates or errors.

The choice for a request follows from the seed, the client id, the API, and how often that client has asked that API. No
request gets a fault directly after one of the same client and API.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable
from typing import Final

import attrs

from pylogbroker.errors import ErrorCode
from pylogbroker.testing.faults.criteria import Call
from pylogbroker.testing.faults.fault import Action, CloseMoment
from pylogbroker.testing.faults.names import api_key
from pylogbroker.wire.messages.produce import ProduceRequest

_CHOSEN_MAX: Final = 10_000
_DELAY_SECONDS_MAX: Final = 0.02
_MAGIC: Final = slice(16, 17)  # in a record batch, and in a message set
_PRODUCER_ID: Final = slice(43, 51)  # in a record batch

_ERRORS: Final = {
    api_key(api): error
    for api, error in (
        ("Produce", ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ("Fetch", ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ("ListOffsets", ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ("FindCoordinator", ErrorCode.COORDINATOR_NOT_AVAILABLE),
        ("OffsetFetch", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        ("OffsetCommit", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        ("InitProducerId", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        ("AddPartitionsToTxn", ErrorCode.CONCURRENT_TRANSACTIONS),
    )
}
_MAY_CLOSE: Final = frozenset(map(api_key, ("Fetch", "ListOffsets", "Metadata", "OffsetFetch", "FindCoordinator")))


@attrs.define(eq=False, repr=False)
class Chaos:
    """`rate` is the part of the requests that get a fault."""

    seed: int
    rate: float
    _remove: Callable[[Chaos], None]
    chosen: deque[tuple[str | None, str, Action]] = attrs.field(factory=lambda: deque(maxlen=_CHOSEN_MAX), init=False)
    """Client, API and fault of the last `_CHOSEN_MAX` choices."""
    _asked: Counter[tuple[str | None, int]] = attrs.field(factory=Counter, init=False)
    _struck: set[tuple[str | None, int]] = attrs.field(factory=set, init=False)

    def remove(self) -> None:
        self._remove(self)

    def choose(self, call: Call) -> Action | None:
        """Return the fault of a request, or None."""
        client, key = call.context.client_id, call.api.key
        number = self._asked[client, key]
        self._asked[client, key] += 1
        chance = random.Random(f"{self.seed} {client} {key} {number}")
        if chance.random() >= self.rate or (client, key) in self._struck:
            self._struck.discard((client, key))
            return None
        self._struck.add((client, key))
        action = chance.choice(_actions(call, chance.random() * _DELAY_SECONDS_MAX))
        self.chosen.append((client, call.api.name, action))
        return action


def _actions(call: Call, delay: float) -> list[Action]:
    actions, key, request = [Action(delay=delay)], call.api.key, call.request
    if isinstance(request, ProduceRequest):
        if request.acks == 0 or not _is_idempotent(request):
            return actions  # a retry could lose, repeat or reorder records
        actions.append(Action(close=CloseMoment.AFTER))
    if key in _ERRORS:
        actions.append(Action((_ERRORS[key],)))
    if key in _MAY_CLOSE:
        actions += [Action(close=moment) for moment in CloseMoment]
    return actions


def _is_idempotent(request: ProduceRequest) -> bool:
    batches = (partition.records for topic in request.topic_data for partition in topic.partition_data)
    return all(batch is not None and batch[_MAGIC] == b"\2" and batch[_PRODUCER_ID] != b"\xff" * 8 for batch in batches)
