"""Rate limit of log lines: each subject is logged once in an interval."""

from __future__ import annotations

from pylogbroker.broker.runtime.resources import LOG_INTERVAL_MS, LogRateLimit

NOW = 1_700_000_000_000


def test_each_subject_is_logged_once_in_an_interval() -> None:
    log_rate_limit = LogRateLimit()
    times = (0, 1, LOG_INTERVAL_MS - 1, LOG_INTERVAL_MS, LOG_INTERVAL_MS + 1, 2 * LOG_INTERVAL_MS)
    assert [log_rate_limit.is_due("disk", NOW + time) for time in times] == [True, False, False, True, False, True]
    assert log_rate_limit.is_due("other disk", NOW + 1)


def test_a_clock_that_is_set_back_silences_nobody() -> None:
    log_rate_limit = LogRateLimit()
    assert log_rate_limit.is_due("disk", NOW)
    assert log_rate_limit.is_due("disk", NOW - 1)
    assert not log_rate_limit.is_due("disk", NOW)
