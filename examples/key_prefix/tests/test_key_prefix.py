"""Tests of the partitioner, without a broker."""

from __future__ import annotations

import pytest
from key_prefix import KeyPrefix, KeyPrefixFactory
from zope.interface.verify import verifyObject

from pylogbroker.interfaces import IPartitioner, IPartitionerFactory


def test_keys_that_begin_alike_stay_together() -> None:
    partitioner = KeyPrefix(b"/")
    keys = [b"anna", b"anna/17", b"anna/18", b"anna/18/2"]
    assert len({partitioner.partition(key, 1000) for key in keys}) == 1


def test_others_are_spread() -> None:
    partitioner = KeyPrefix(b"/")
    assert {partitioner.partition(b"%d/1" % number, 4) for number in range(100)} == {0, 1, 2, 3}
    assert {partitioner.partition(None, 4) for _ in range(1000)} == {0, 1, 2, 3}


def test_a_separator_is_needed() -> None:
    with pytest.raises(ValueError, match="what a prefix ends with"):
        KeyPrefixFactory().make("", {})


def test_a_producer_uses_the_partitioner() -> None:
    factory = KeyPrefixFactory()
    verifyObject(IPartitionerFactory, factory)
    verifyObject(IPartitioner, factory.make("/", {}))
