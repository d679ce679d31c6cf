"""A connection's forms of requests: how many it keeps, and which ones make way for others."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import attrs

from pylogbroker.broker.repeated import PREFIX_AT
from pylogbroker.net.repeated_requests import RepeatedRequests

FORMS_MAX = 64


@attrs.define
class Form:
    prefix: bytes
    is_over: bool = False


def learn(requests: RepeatedRequests, number: int, version: int = 0) -> Form:
    """Let a request with a form of its own be learned."""
    form = Form(number.to_bytes(4))
    route: Any = SimpleNamespace(learn=lambda *_: form, services=None, is_read=True)
    requests.learn(route, None, frame(number, version), PREFIX_AT, None, None)  # type: ignore[arg-type]
    return form


def frame(number: int, version: int = 0) -> memoryview:
    return memoryview(version.to_bytes(4) + bytes(4) + number.to_bytes(4) + b"rest")


def test_later_forms_are_not_learned_when_it_is_full() -> None:
    requests = RepeatedRequests()
    for number in range(FORMS_MAX + 1):
        learn(requests, number)
    assert len(requests) == FORMS_MAX
    assert requests.find(frame(0)) is not None
    assert requests.find(frame(FORMS_MAX)) is None


def test_forms_that_are_over_make_way() -> None:
    requests = RepeatedRequests()
    forms = [learn(requests, number) for number in range(FORMS_MAX)]
    forms[3].is_over = True
    learn(requests, FORMS_MAX)
    found = requests.find(frame(FORMS_MAX))
    assert found is not None
    assert found[1].prefix == FORMS_MAX.to_bytes(4)
    assert requests.find(frame(3)) is None
    assert requests.find(frame(4)) is not None


def test_each_version_has_a_form_of_its_own() -> None:
    requests = RepeatedRequests()
    for version in (7, 8):
        form = learn(requests, 0, version)
        found = requests.find(frame(0, version))
        assert found is not None
        assert found[1] is form
    assert requests.find(frame(0, 9)) is None
