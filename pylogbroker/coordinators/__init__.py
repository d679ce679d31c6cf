"""Building blocks of state machines without a clock: timers that a driver fires, and an event queue without nesting."""

from pylogbroker.coordinators.event_queue import EventQueue
from pylogbroker.coordinators.timers import Action, Timer, Timers, no_wakeup

__all__ = ["Action", "EventQueue", "Timer", "Timers", "no_wakeup"]
