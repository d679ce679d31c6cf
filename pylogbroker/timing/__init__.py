"""What state machines without a clock are made of: deadlines that others watch, and turns that never nest."""

from pylogbroker.timing.timers import Action, Timer, Timers, nobody_to_wake
from pylogbroker.timing.turns import Turns

__all__ = ["Action", "Timer", "Timers", "Turns", "nobody_to_wake"]
