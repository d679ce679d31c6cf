"""Timers that take samples while the broker serves, whether or not somebody looks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, cast

import attrs
from twisted.internet.defer import CancelledError, Deferred, ensureDeferred
from twisted.logger import Logger

from pylogbroker.broker.requests.context import RequestContext
from pylogbroker.broker.runtime.resources import PeriodicCall
from pylogbroker.broker.security.access import Access, HasDecisions
from pylogbroker.broker.services import Services
from pylogbroker.peer_log_limit import PeerLogLimit
from pylogbroker.security.acls.bindings import AclOperation, AclResourceType
from pylogbroker.web import group_lags, problem_search, topic_rates, topic_sizes, traffic_history
from pylogbroker.web.group_lags import GroupPace
from pylogbroker.web.group_offsets import Committed, ends_of, lag_at, lag_of
from pylogbroker.web.log_ends import Age
from pylogbroker.web.offsets import Key
from pylogbroker.web.responsible_brokers import ask_all
from pylogbroker.web.samples import Samples
from pylogbroker.web.visitors import Visitor
from pylogbroker.wire.messages.describe_log_dirs import DescribeLogDirsRequest

log = Logger()

Sample = Callable[[Services], Awaitable[None]]
_CLIENT_ID: Final = "pylogbroker-samples"


@attrs.define(eq=False, repr=False)
class _FullAccess(Access):
    """Access of the samples: pages show of them what their visitors may see."""

    def allows(self, operation: AclOperation, kind: AclResourceType, name: str, quietly: bool = False) -> bool:
        return True


@attrs.define(eq=False, repr=False)
class Sampler:
    samples: Samples = attrs.field(factory=Samples, init=False)
    _committed: Mapping[str, Committed] = attrs.field(factory=dict, init=False)
    """Offsets of the sampled groups at the last sample."""
    _timers: list[PeriodicCall] = attrs.field(factory=list, init=False)
    _running: dict[Sample, Deferred[None]] = attrs.field(factory=dict, init=False)

    def start(self, services: Services) -> None:
        """Begin, unless it has begun."""
        if self._timers:
            return
        for seconds, sample in (
            (topic_rates.INTERVAL_SECONDS, self.samples.topic_rates.sample),
            (topic_sizes.INTERVAL_SECONDS, self.samples.topic_sizes.sample),
            (traffic_history.INTERVAL_SECONDS, self.samples.traffic.sample),
            (traffic_history.INTERVAL_SECONDS, self._sample_cluster),
            (group_lags.INTERVAL_SECONDS, self._sample_lags),
            (problem_search.INTERVAL_SECONDS, self._look),
        ):
            timer = PeriodicCall(services.runtime.clock, self._begin, services, sample)
            timer.start(seconds)
            self._timers.append(timer)

    def stop(self) -> None:
        for timer in self._timers:
            timer.stop()
        self._timers.clear()
        for running in tuple(self._running.values()):
            running.cancel()

    def _begin(self, services: Services, sample: Sample) -> None:
        """Begin to take a sample, unless the one before takes longer than the interval."""
        if sample not in self._running:
            running = self._running[sample] = ensureDeferred(self._take(services, sample))
            running.addBoth(self._taken, sample)

    def _taken(self, _: object, sample: Sample) -> None:
        del self._running[sample]

    async def _take(self, services: Services, sample: Sample) -> None:
        try:
            await sample(services)
        except CancelledError:
            pass
        except Exception:
            log.failure("a sample for the page failed")

    def _visitor(self, services: Services) -> Visitor:
        """Return a visitor who may see everything, also of a broker with an authorizer."""
        context, authorizer = RequestContext(0, _CLIENT_ID), services.authorizer
        if authorizer is not None:
            denials = PeerLogLimit(services.runtime.clock, "{count} more denials of {host}")  # there are none
            source = cast(HasDecisions, authorizer)
            context = attrs.evolve(context, access=_FullAccess(context.principal, "", source, denials))
        return Visitor(services, context, self.samples)

    async def _sample_cluster(self, services: Services) -> None:
        """Ask all brokers for their counts, unless there has been only this one."""
        of_all, runtime = self.samples.cluster_traffic, services.runtime
        if of_all.has_begun or services.metadata.image.brokers.keys() - {services.node.id}:
            answers = await ask_all(self._visitor(services), DescribeLogDirsRequest([], with_traffic=True))
            of_all.note(runtime.clock.seconds(), runtime.now_ms(), answers)

    async def _look(self, services: Services) -> None:
        await problem_search.look(self._visitor(services))

    async def _sample_lags(self, services: Services) -> None:
        """Note the lag of groups that are coordinated here, in slices, with one question to each other leader."""
        visitor = self._visitor(services)
        over, lags = services.runtime.slices.over, self.samples.group_lags
        time_ms = services.runtime.now_ms()
        groups = [group async for group in over(tuple(services.groups.groups())) if group.offsets.committed]
        chosen = lags.choose(group.group_id for group in groups)
        committed = {
            group.group_id: dict(group.offsets.committed) async for group in over(groups) if group.group_id in chosen
        }
        keys = {key async for key in over(key for offsets in committed.values() for key in offsets)}
        ends = await ends_of(visitor, keys)
        self.samples.log_ends.note(time_ms, keys, ends)
        lags_now = {group_id: await lag_of(visitor, offsets, ends) for group_id, offsets in committed.items()}
        lags.note(time_ms, lags_now)
        lags.paces = {
            group_id: await self._pace(visitor, group_id, offsets, ends) for group_id, offsets in committed.items()
        }
        self._committed = committed
        topics: dict[str, dict[str, int]] = {}
        for group_id, offsets in committed.items():
            async for key, offset in over(offsets.items()):
                by_group = topics.setdefault(key[0], {})
                by_group[group_id] = by_group.get(group_id, 0) + (lag_at(offset, ends.get(key)) or 0)
        lags.topics = topics

    async def _pace(self, visitor: Visitor, group_id: str, committed: Committed, ends: Mapping[Key, int]) -> GroupPace:
        """Return how a group reads, by its offsets and those of the last sample."""
        log_ends, before = self.samples.log_ends, self._committed.get(group_id, {})
        now_ms, seconds = visitor.services.runtime.now_ms(), log_ends.interval_ms / 1000
        topics, read, written = dict[str, None](), list[int](), list[int]()
        ages = list[Age | None]()
        async for key, offset in visitor.services.runtime.slices.over(committed.items()):
            topics[key[0]] = None
            if key in before:
                read.append(max(0, offset.offset - before[key].offset))
            if (grown := log_ends.written(key)) is not None:
                written.append(grown)
            end = ends.get(key)
            if end is None or end > offset.offset:
                ages.append(None if end is None else log_ends.age(key, offset.offset, end, now_ms))
        aged = [age for age in ages if age is not None]
        oldest = max(aged, key=lambda age: age.ms, default=None if ages else Age(0))
        return GroupPace(
            tuple(sorted(topics)),
            sum(read) / seconds if read and seconds else None,
            sum(written) / seconds if written and seconds else None,
            None if oldest is None else oldest.ms,
            oldest is not None and (oldest.is_more or len(aged) < len(ages)),
        )
