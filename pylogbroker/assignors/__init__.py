"""Algorithms that divide partitions among group members, as pure functions.

    members         subscribers of each topic, order of members
    even            range and round robin, whatever the previous assignment
    sticky          balanced, with as few moves as possible
    uniform         sticky, at once, for members with equal subscriptions
    group           those that the broker has for groups of KIP-848
    user_data       user data sent by members of a sticky group

Range and round robin give Kafka's results, so any member may be the leader.
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
