"""Records on their way to the reactor's thread: in lots, in order, bounded."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from twisted.internet.defer import Deferred

from pylogbroker.client.producer.model import RecordMetadata
from pylogbroker.client.sync import submissions as module
from pylogbroker.client.sync.submissions import Submissions
from tests.support.waiting import wait_until


class Calls:
    """A reactor that calls when the test says so, and a producer that keeps what is sent."""

    def __init__(self) -> None:
        self.scheduled: list[Callable[[], None]] = []
        self.sent: list[Deferred[RecordMetadata]] = []

    def __call__(self, function: Callable[[], None]) -> None:
        self.scheduled.append(function)

    def send(self) -> Deferred[RecordMetadata]:
        self.sent.append(Deferred())
        return self.sent[-1]

    def iterate(self) -> None:
        scheduled, self.scheduled = self.scheduled, []
        for function in scheduled:
            function()


@pytest.fixture
def calls() -> Calls:
    return Calls()


@pytest.fixture
def submissions(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> Submissions:
    monkeypatch.setattr(module, "UNACKNOWLEDGED_BYTES_MAX", 100)
    return Submissions(calls)


def metadata(offset: int) -> RecordMetadata:
    return RecordMetadata("t", 0, offset, 0)


def test_one_event_takes_all(calls: Calls, submissions: Submissions) -> None:
    for _ in range(2):
        futures = [submissions.submit(calls.send, 10, None) for _ in range(5)]
        assert len(calls.scheduled) == 1
        calls.iterate()
        for offset, sent in enumerate(calls.sent):
            sent.callback(metadata(offset))
        assert [future and future.result(0).offset for future in futures] == list(range(5))
        calls.sent.clear()


def test_failures(calls: Calls, submissions: Submissions) -> None:
    future = submissions.submit(calls.send, 10, None)
    calls.iterate()
    calls.sent[0].errback(LookupError("so"))
    assert future is not None
    with pytest.raises(LookupError, match="so"):
        future.result(0)


def test_no_space(calls: Calls, submissions: Submissions) -> None:
    assert submissions.submit(calls.send, 60, 0.01) is not None
    assert submissions.submit(calls.send, 60, 0.01) is None
    assert submissions.submit(calls.send, 40, 0.01) is not None
    calls.iterate()
    assert len(calls.sent) == 2


def test_a_record_larger_than_the_limit_is_submitted_alone(calls: Calls, submissions: Submissions) -> None:
    assert submissions.submit(calls.send, 1000, 0.01) is not None
    assert submissions.submit(calls.send, 1, 0.01) is None


@pytest.mark.parametrize("cancelled", [False, True])
def test_a_wait_for_space_ends_when_space_is_freed(calls: Calls, submissions: Submissions, cancelled: bool) -> None:
    first = submissions.submit(calls.send, 60, None)
    assert first is not None
    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(submissions.submit, calls.send, 60, 20.0)
        wait_until(lambda: submissions._blocked)
        if cancelled:
            assert first.cancel()
        calls.iterate()
        if not cancelled:
            calls.sent[0].callback(metadata(0))
        assert second.result(60) is not None
    calls.iterate()
    assert len(calls.sent) == (1 if cancelled else 2)
