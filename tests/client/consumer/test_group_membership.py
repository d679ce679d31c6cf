"""Errors of its group that a connector's readers get."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from pylogbroker.client.consumer.group_membership import MemberListener
from pylogbroker.errors import ErrorCode, KafkaError


def reported(error: Exception) -> Exception:
    errors: list[Exception] = []
    nothing: Any = None
    joined: Deferred[None] = Deferred()
    joined.addErrback(lambda _: None)
    MemberListener(nothing, frozenset, "shelf-7", joined, errors.append).failed(error)
    [found] = errors
    return found


def test_an_error_of_a_fenced_static_member_names_its_instance_id() -> None:
    error = reported(KafkaError(code=ErrorCode.FENCED_INSTANCE_ID))
    assert isinstance(error, KafkaError)
    assert error.code is ErrorCode.FENCED_INSTANCE_ID
    assert "shelf-7" in str(error)


def test_other_errors_are_notified_as_they_are() -> None:
    error = KafkaError(code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    assert reported(error) is error
