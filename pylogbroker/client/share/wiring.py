"""Wiring of a share consumer's parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pylogbroker.client.cluster import Cluster
from pylogbroker.client.consumer.actions import MemberSubscription
from pylogbroker.client.consumer.epoch_member_driver import (
    EpochMemberDriver,
    EpochMemberListener,
    EpochMemberSettings,
)
from pylogbroker.client.consumer.wiring import (
    api_timeout_ms,
    backoff_ms,
    checks_crcs,
    fetch_limits,
    new_member_id,
    poll_records_max,
    rack_of,
    request_timeout,
)
from pylogbroker.client.share.exchange import ShareFetchSettings
from pylogbroker.client.share.share_heartbeats import ShareGroupHeartbeats
from pylogbroker.config import Values
from pylogbroker.rpc.backoff import Backoff

_ACQUIRE_MODES: Final = {"batch_optimized": 0, "record_limit": 1}


def share_member(
    cluster: Cluster,
    reactor: Any,
    group: str,
    settings: Values,
    subscription: Callable[[], MemberSubscription],
    reads: Callable[[str], bool],
    listener: EpochMemberListener,
) -> EpochMemberDriver:
    member_settings = EpochMemberSettings(
        group,
        None,
        *backoff_ms(settings),
        request_timeout(settings),
        says_owned=False,
    )
    heartbeats = ShareGroupHeartbeats(cluster, group, rack_of(settings))
    return EpochMemberDriver(
        cluster, reactor, member_settings, heartbeats, subscription, reads, listener, new_member_id
    )


def share_fetch_settings(settings: Values) -> ShareFetchSettings:
    return ShareFetchSettings(
        *fetch_limits(settings),
        poll_records_max(settings),
        _ACQUIRE_MODES[settings.text("share.acquire.mode")],
        checks_crcs(settings),
        Backoff.of(settings).first,
        request_timeout(settings),
        api_timeout_ms(settings) / 1000,
    )
