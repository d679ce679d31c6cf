"""Wiring of a connector's parts."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pylogbroker.client.cluster import Cluster
from pylogbroker.client.consumer.actions import MemberSubscription
from pylogbroker.client.consumer.assigned_partitions import AssignedPartitions, RebalanceListener
from pylogbroker.client.consumer.committer import CommitGuard, Committer
from pylogbroker.client.consumer.epoch_member_driver import (
    EpochMemberDriver,
    EpochMemberListener,
    EpochMemberSettings,
)
from pylogbroker.client.consumer.fetcher import Fetcher, FetchSettings
from pylogbroker.client.consumer.group_heartbeats import ConsumerGroupHeartbeats
from pylogbroker.client.consumer.member_driver import MemberSettings
from pylogbroker.client.consumer.offset_stores import OffsetStore
from pylogbroker.client.consumer.positions import Positions
from pylogbroker.client.consumer.streams import Stream
from pylogbroker.client.consumer.unpacker import Unpacker
from pylogbroker.client.plugin_guards import decoder_of
from pylogbroker.client.sources import BrokerSource, StaticBrokers, TreeBrokers
from pylogbroker.config import Values
from pylogbroker.interfaces import IDecoder, ITree
from pylogbroker.rpc.backoff import Backoff
from pylogbroker.rpc.retries import Pauses
from pylogbroker.rpc.security import security_protocol


def make_source(bootstrap: str | Iterable[str] | None, tree: ITree | None, settings: Values) -> BrokerSource:
    brokers = bootstrap or settings.texts("bootstrap.servers")
    if not brokers and tree is not None:
        return TreeBrokers(tree, security_protocol(settings))
    return StaticBrokers(brokers)


def make_stream(reactor: Any, settings: Values) -> Stream:
    timeout = settings.integer("consumer.timeout.ms")
    return Stream(reactor, poll_records_max(settings), None if timeout < 0 else timeout / 1000)


def make_unpacker(settings: Values, key: str | IDecoder | None, value: str | IDecoder | None) -> Unpacker:
    return Unpacker(
        decoder_of(settings, "key.deserializer", key),
        decoder_of(settings, "value.deserializer", value),
        _read_committed(settings),
        checks_crcs(settings),
    )


def make_assigned_partitions(
    cluster: Cluster,
    pauses: Pauses,
    settings: Values,
    unpack: Unpacker,
    store: OffsetStore,
    guard: CommitGuard,
    streams_of: Callable[[str], Sequence[Stream]],
    listener: RebalanceListener,
) -> AssignedPartitions:
    timeout = api_timeout_ms(settings) / 1000
    backoff = Backoff.of(settings)

    def make_parts(assigned: AssignedPartitions) -> tuple[Committer, Fetcher, Positions]:
        committer = Committer(pauses, store.commit, guard, assigned.is_ours, backoff, timeout)
        fetcher = Fetcher(
            cluster,
            pauses.clock,
            _fetching(settings),
            unpack,
            assigned.filled,
            assigned.out_of_range,
            assigned.fail_one,
            assigned.truncated,
            assigned.recreated,
        )
        positions = Positions(
            cluster,
            pauses.clock,
            settings.text("auto.offset.reset"),
            _read_committed(settings),
            backoff.first,
            store.fetch,
            assigned.fail_one,
        )
        return committer, fetcher, positions

    return AssignedPartitions(
        pauses.clock,
        streams_of,
        settings.integer("max.partition.fetch.bytes"),
        settings.integer("rebalance.wait.ms") / 1000,
        settings.boolean("enable.auto.commit"),
        listener,
        make_parts,
    )


def epoch_member(
    cluster: Cluster,
    reactor: Any,
    member: MemberSettings,
    settings: Values,
    subscription: Callable[[], MemberSubscription],
    reads: Callable[[str], bool],
    listener: EpochMemberListener,
) -> EpochMemberDriver:
    """Return a member of a group whose coordinator assigns."""
    heartbeats = ConsumerGroupHeartbeats(
        cluster,
        member.group,
        member.instance_id,
        member.rack,
        settings.optional_text("group.remote.assignor"),
        member.rebalance_timeout_ms,
    )
    member_settings = EpochMemberSettings(
        member.group,
        member.instance_id,
        member.backoff_ms,
        member.backoff_max_ms,
        member.request_timeout,
        api_timeout_ms(settings),
    )
    return EpochMemberDriver(
        cluster, reactor, member_settings, heartbeats, subscription, reads, listener, new_member_id
    )


def api_timeout_ms(settings: Values) -> int:
    return settings.integer("default.api.timeout.ms")


def request_timeout(settings: Values) -> float:
    return settings.integer("request.timeout.ms") / 1000


def backoff_ms(settings: Values) -> tuple[int, int]:
    """Return the first and the longest pause before a retry."""
    backoff = Backoff.of(settings)
    return round(backoff.first * 1000), round(backoff.longest * 1000)


def fetch_limits(settings: Values) -> tuple[int, int, int]:
    """Return the longest wait of a fetch in ms, and its fewest and most bytes."""
    wait_ms_max = settings.integer("fetch.max.wait.ms")
    return wait_ms_max, settings.integer("fetch.min.bytes"), settings.integer("fetch.max.bytes")


def poll_records_max(settings: Values) -> int:
    return settings.integer("max.poll.records")


def checks_crcs(settings: Values) -> bool:
    return settings.boolean("check.crcs")


def rack_of(settings: Values) -> str | None:
    return settings.text("client.rack") or None


def new_member_id() -> str:
    """Return a random id, written as Kafka's clients write it."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()


def group_settings(group: str, settings: Values) -> MemberSettings:
    return MemberSettings(
        group,
        settings.optional_text("group.instance.id"),
        rack_of(settings),
        settings.integer("session.timeout.ms"),
        settings.integer("heartbeat.interval.ms"),
        settings.integer("max.poll.interval.ms"),
        *backoff_ms(settings),
        request_timeout(settings),
    )


def _fetching(settings: Values) -> FetchSettings:
    return FetchSettings(
        *fetch_limits(settings),
        settings.integer("max.partition.fetch.bytes"),
        _read_committed(settings),
        Backoff.of(settings).first,
        request_timeout(settings),
    )


def _read_committed(settings: Values) -> bool:
    return settings.text("isolation.level") == "read_committed"
