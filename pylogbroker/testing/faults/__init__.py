"""Faults of a broker that a program is tested with: errors, delays, closed connections, and more, on request.

faults = broker.faults
faults.add(api="Produce", error="NOT_LEADER_OR_FOLLOWER", times=2)
with faults.add(api="Fetch", close="before", times=None, must_fire=True):
    ...
"""

from pylogbroker.testing.faults.fault import Fault, FaultNotFired, Watch
from pylogbroker.testing.faults.registry import Faults
from pylogbroker.testing.faults.requests import RequestLog, SeenRequest

__all__ = ["Fault", "FaultNotFired", "Faults", "RequestLog", "SeenRequest", "Watch"]
