"""API versions of Kafka's releases."""

from __future__ import annotations

import pytest

from pylogbroker.broker.apis import APIS
from pylogbroker.broker.requests.offered_versions import versions_in_3_9
from pylogbroker.testing.faults import releases
from pylogbroker.testing.faults.releases import oldest_of, versions_of
from pylogbroker.wire import SUPPORTED

#: APIs that no release before 4.0 has in ZooKeeper mode.
NOT_OF_ZOOKEEPER_MODE = {
    *("ConsumerGroupDescribe", "ConsumerGroupHeartbeat"),
    *("DescribeTopicPartitions", "GetTelemetrySubscriptions", "ListConfigResources", "PushTelemetry"),
    *(api.name for api in APIS if "Share" in api.name or "Streams" in api.name),
}


def test_releases_3_9_and_4_4_have_the_declared_versions() -> None:
    newest, in_3_9 = versions_of("4.4"), versions_of("3.9")
    for api in APIS:
        if not api.cluster_only:
            remedy = f"{api.name}: enter in {releases.__file__} which release offers the version first"
            assert newest.get(api.key) == SUPPORTED.declared[api.key].versions.last, remedy
            assert api.name in NOT_OF_ZOOKEEPER_MODE or in_3_9.get(api.key) == versions_in_3_9(api.key).last, remedy


def test_release_4_has_no_versions_of_old_clients() -> None:
    assert {key: oldest_of("4.0").get(key) for key in (0, 1, 3, 8, 19)} == {0: None, 1: 4, 3: None, 8: 2, 19: 2}
    assert oldest_of("3.9") == {}


def test_versions_of_releases_0_10_and_2_8() -> None:
    old, newer = versions_of("0.10.0"), versions_of("2.8.0")
    assert {key: old.get(key) for key in (0, 1, 3, 18, 19)} == {0: 2, 1: 2, 3: 1, 18: 0, 19: None}
    assert {key: newer.get(key) for key in (0, 1, 3, 18, 60, 65)} == {0: 9, 1: 12, 3: 11, 18: 3, 60: 0, 65: None}
    with pytest.raises(ValueError, match=r"there is no release '2\.88'"):
        versions_of("2.88")
