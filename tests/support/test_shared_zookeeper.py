"""The run's ZooKeeper: an empty chroot for each test, and sessions as short as tests of failures need them."""

from __future__ import annotations

from unittest.mock import Mock

import pytest
from kazoo.exceptions import NotEmptyError

from tests.support.needs import needs
from tests.support.shared_zookeeper import _is_deleted, connected, fresh_chroot


def test_a_chroot_is_empty_and_deleted_in_the_end(zookeeper_chroot: str) -> None:
    server, _, outer = zookeeper_chroot.partition("/")
    with connected(zookeeper_chroot) as client:
        assert client.get_children("/") == []
        with fresh_chroot(f"{server}/{outer}", "Of a test[1]") as chroot, connected(chroot) as inner:
            [name] = client.get_children("/")
            assert name.startswith("of-a-test-1-")
            assert inner.get_children("/") == []
            inner.create("/brokers/ids/1", b"", makepath=True)
            assert client.exists(f"/{name}/brokers/ids/1")
        assert client.get_children("/") == []


def test_a_chroot_to_which_a_broker_adds_meanwhile_is_deleted() -> None:
    client = Mock(retry=Mock(side_effect=[NotEmptyError, None]))
    assert [_is_deleted(client, "/of-a-test") for _ in range(2)] == [False, True]


def test_sessions_may_be_short(zookeeper_chroot: str) -> None:
    with connected(zookeeper_chroot, session_seconds=1.0) as client:
        assert client._session_timeout == 1000  # as the server answered, in milliseconds


def test_tests_with_the_ensemble_need_a_process_but_not_kafka(
    request: pytest.FixtureRequest, zookeeper_chroot: str
) -> None:
    assert needs(request.node) == {"process"}
