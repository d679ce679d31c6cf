"""Sticky assignment: balanced as far as subscriptions allow, with as few moves as possible.

1. A member keeps claimed partitions to which it still subscribes. Of several claims the latest generation wins; equal
   generations cancel each other.
2. An unclaimed partition goes to the subscriber with the fewest partitions; topics with fewest subscribers first.
3. While possible, the member with the most partitions gives one to a member with at least two fewer: directly, or by a
   chain of members who each pass one on. Without such a chain the balance is optimal.

    A has 4, B has 2, C has 1;  A and B may read topic a, B and C may read topic b
    A --a--> B --b--> C         A has 3, B has 2, C has 2, though A has nothing that C may read

A partition's home is the member whose claim won; partitions away from home move first. Topics with equal subscribers
are of one kind: step 3 searches kinds, not partitions.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

import attrs

from pylogbroker.assignors.members import Members, in_order, subscribers
from pylogbroker.interfaces import TopicPartition


@attrs.frozen
class Claim:
    """Partitions owned in a generation; -1 if unknown."""

    owned: Sequence[TopicPartition] = ()
    generation: int = -1


Claims = Mapping[str, Claim]
_Kind = tuple[str, ...]  # the common subscribers of some topics
_Pile = dict[str | None, list[TopicPartition]]  # a member's partitions of one kind, by home


def assign_sticky(partitions: Mapping[str, int], members: Members, claims: Claims) -> dict[str, list[TopicPartition]]:
    kinds = {topic: tuple(sharing) for topic, sharing in subscribers(partitions, members).items()}
    division = _Division(in_order(members))
    homes = _homes(kinds, partitions, claims)
    for partition, home in homes.items():
        division.put(partition, kinds[partition[0]], home, home)
    division.deal(
        [(topic, kinds[topic], partitions[topic]) for topic in sorted(kinds, key=lambda t: len(kinds[t]))], homes
    )
    division.level()
    return division.result()


def hold_back(assignment: Mapping[str, Sequence[TopicPartition]], claims: Claims) -> dict[str, list[TopicPartition]]:
    """Omit partitions that another member has yet to revoke."""
    claimants: dict[TopicPartition, list[str]] = {}
    for member, claim in claims.items():
        for partition in claim.owned:
            claimants.setdefault(partition, []).append(member)
    return {
        member: [partition for partition in given if member in claimants.get(partition, [member])]
        for member, given in assignment.items()
    }


def _homes(kinds: Mapping[str, _Kind], partitions: Mapping[str, int], claims: Claims) -> dict[TopicPartition, str]:
    best: dict[TopicPartition, tuple[int, str | None]] = {}
    for member, claim in sorted(claims.items()):
        for topic, number in claim.owned:
            if member not in kinds.get(topic, ()) or not 0 <= number < partitions[topic]:
                continue
            generation, _ = best.get((topic, number), (-2, None))
            if claim.generation == generation:
                best[topic, number] = generation, None
            elif claim.generation > generation:
                best[topic, number] = claim.generation, member
    return {partition: member for partition, (_, member) in sorted(best.items()) if member is not None}


@attrs.define
class _Division:
    _members: list[str]
    _piles: dict[str, dict[_Kind, _Pile]] = attrs.field(init=False)
    _counts: dict[str, int] = attrs.field(init=False)
    _places: dict[str, int] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._piles = {member: {} for member in self._members}
        self._counts = dict.fromkeys(self._members, 0)
        self._places = {member: place for place, member in enumerate(self._members)}

    def put(self, partition: TopicPartition, kind: _Kind, member: str, home: str | None) -> None:
        self._piles[member].setdefault(kind, {}).setdefault(home, []).append(partition)
        self._counts[member] += 1

    def deal(self, topics: Sequence[tuple[str, _Kind, int]], homes: Mapping[TopicPartition, str]) -> None:
        """Give each homeless partition to the subscriber with the fewest."""
        heaps: dict[_Kind, list[tuple[int, int, str]]] = {}
        for topic, kind, partitions in topics:
            if kind not in heaps:
                heaps[kind] = sorted(map(self._entry, kind))
            for number in range(partitions):
                if (topic, number) not in homes:
                    self.put((topic, number), kind, self._least(heaps[kind]), None)

    def level(self) -> None:
        settled: set[str] = set()
        while len(settled) < len(self._members):
            richest = max((member for member in self._members if member not in settled), key=self._counts.__getitem__)
            came, goal = self._search(richest)
            if goal is None:
                settled.update(came)
            else:
                self._pass_on(came, goal)

    def result(self) -> dict[str, list[TopicPartition]]:
        return {
            member: sorted(partition for pile in piles.values() for some in pile.values() for partition in some)
            for member, piles in self._piles.items()
        }

    def _entry(self, member: str) -> tuple[int, int, str]:
        return self._counts[member], self._places[member], member

    def _least(self, heap: list[tuple[int, int, str]]) -> str:
        """Return the member with the fewest partitions. Counts only grow: a stale one is never too high."""
        while heap[0] != (entry := self._entry(heap[0][2])):
            heapq.heapreplace(heap, entry)
        return heap[0][2]

    def _search(self, start: str) -> tuple[dict[str, tuple[str, _Kind] | None], str | None]:
        """Return each reachable member's giver and kind, and the nearest member at least two below `start`."""
        came: dict[str, tuple[str, _Kind] | None] = {start: None}
        seen: set[_Kind] = set()
        ring = [start]
        while ring:
            ring = self._next_ring(ring, came, seen)
            poorest = min(ring, key=self._counts.__getitem__, default=start)
            if self._counts[poorest] <= self._counts[start] - 2:
                return came, poorest
        return came, None

    def _next_ring(self, ring: list[str], came: dict[str, tuple[str, _Kind] | None], seen: set[_Kind]) -> list[str]:
        reached = []
        for giver in ring:
            for kind in [kind for kind, pile in self._piles[giver].items() if pile and kind not in seen]:
                seen.add(kind)
                for member in kind:
                    if member not in came:
                        came[member] = giver, kind
                        reached.append(member)
        return reached

    def _pass_on(self, came: Mapping[str, tuple[str, _Kind] | None], goal: str) -> None:
        receiver = goal
        while (step := came[receiver]) is not None:
            giver, kind = step
            self._move(giver, receiver, kind)
            receiver = giver

    def _move(self, giver: str, receiver: str, kind: _Kind) -> None:
        """Move a partition: preferably one whose home is the receiver, else one away from home."""
        pile = self._piles[giver][kind]
        home = receiver if receiver in pile else next((member for member in pile if member != giver), giver)
        partition = pile[home].pop()
        if not pile[home]:
            del pile[home]
        self._counts[giver] -= 1
        self.put(partition, kind, receiver, home)
