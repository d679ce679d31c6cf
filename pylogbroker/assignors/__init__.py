"""Algorithms that divide partitions among the members of a consumer group, as pure functions.

    members         the subscribers of each topic, and the order of members
    even            range and round robin, whatever the previous assignment
    sticky          balanced, with as few moves as possible
    user_data       the user data that a member of a sticky group sends

Range and round robin give the same results as Kafka's, so any member may be the leader.
"""

from __future__ import annotations

from pylogbroker.assignors.even import assign_in_ranges, assign_round_robin
from pylogbroker.assignors.sticky import Claim, Claims, assign_sticky, hold_back
from pylogbroker.assignors.user_data import decode_generation, decode_user_data, encode_generation, encode_user_data

__all__ = [
    "Claim",
    "Claims",
    "assign_in_ranges",
    "assign_round_robin",
    "assign_sticky",
    "decode_generation",
    "decode_user_data",
    "encode_generation",
    "encode_user_data",
    "hold_back",
]
