"""Errors of test brokers."""

from __future__ import annotations


class NotRunning(RuntimeError, LookupError):
    """The broker was not started, has stopped, or is down."""
