"""Building blocks of state machines without a clock: timers that a driver fires, and an event queue without nesting."""

from pylogbroker.timing.event_queue import EventQueue
from pylogbroker.timing.timers import Action, Timer, Timers, no_wakeup

__all__ = ["Action", "EventQueue", "Timer", "Timers", "no_wakeup"]
