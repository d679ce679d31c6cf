"""API versions of Kafka's releases."""

from __future__ import annotations

import pytest

from pylogbroker.broker.apis import APIS
from pylogbroker.testing.faults import releases
from pylogbroker.testing.faults.releases import versions_of

#: APIs that no release before 3.9 has in ZooKeeper mode, or whose newest version is of brokers alone.
NOT_OF_ZOOKEEPER_MODE = {"DescribeTopicPartitions"}


def test_the_newest_release_has_this_brokers_versions() -> None:
    newest = versions_of("3.9")
    for api in APIS:
        if not api.cluster_only and api.name not in NOT_OF_ZOOKEEPER_MODE:
            remedy = f"{api.name}: enter in {releases.__file__} which release offers the version first"
            assert newest.get(api.key) == api.versions.last, remedy


def test_versions_of_releases_0_10_and_2_8() -> None:
    old, newer = versions_of("0.10.0"), versions_of("2.8.0")
    assert {key: old.get(key) for key in (0, 1, 3, 18, 19)} == {0: 2, 1: 2, 3: 1, 18: 0, 19: None}
    assert {key: newer.get(key) for key in (0, 1, 3, 18, 60, 65)} == {0: 9, 1: 12, 3: 11, 18: 3, 60: 0, 65: None}
    with pytest.raises(ValueError, match=r"there is no release '2\.88'"):
        versions_of("2.88")
