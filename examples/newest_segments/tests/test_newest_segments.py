"""Tests of the policy, without a broker."""

from __future__ import annotations

import pytest
from newest_segments import NewestSegmentsFactory
from zope.interface.verify import verifyObject

from pylogbroker.interfaces import IDeletePolicy, IDeletePolicyFactory, LogView, SegmentView

FIVE = tuple(SegmentView(10 * n, 10 * n + 10, 100, n, n, active=n == 4) for n in range(5))


@pytest.mark.parametrize(("count", "gone"), [(1, 4), (3, 2), (5, 0), (9, 0)])
def test_the_newest_stay(count: int, gone: int) -> None:
    policy = NewestSegmentsFactory().make(str(count), {})
    assert tuple(policy.deletable(LogView("t", 0, FIVE), 1000)) == FIVE[:gone]


@pytest.mark.parametrize("argument", ["", "0", "-1", "three", "1.5"])
def test_other_arguments_are_rejected(argument: str) -> None:
    with pytest.raises(ValueError, match="how many segments"):
        NewestSegmentsFactory().make(argument, {})


def test_the_broker_uses_the_policy() -> None:
    factory = NewestSegmentsFactory()
    verifyObject(IDeletePolicyFactory, factory)
    verifyObject(IDeletePolicy, factory.make("1", {}))
