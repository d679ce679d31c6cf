"""Building blocks of state machines without a clock: timers that a driver fires, and an event queue without nesting."""

from pylogbroker.timing.timers import Action, Timer, Timers, nobody_to_wake
from pylogbroker.timing.turns import Turns

__all__ = ["Action", "Timer", "Timers", "Turns", "nobody_to_wake"]
