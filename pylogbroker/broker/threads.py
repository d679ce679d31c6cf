"""Calling what blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred

InThread = Callable[..., Deferred[Any]]
"""`in_thread(function, *arguments)` calls it in a worker thread and gives a Deferred of what it returns."""
