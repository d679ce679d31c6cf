"""How partitions are divided among the members of a consumer group: values in, values out.

    members         who subscribes to what, and the order that members are served in
    even            range and round robin: as many for each, whatever anybody had before
    sticky          as even as can be, and nearly everybody keeps what he had
    user_data       what a member of a sticky group says of what it had

The results are those of the assignors of the same names in Kafka's clients where those names stand for one result: a
group has one leader, and any member may be it. Sticky ones stand for properties instead, see `sticky`.
"""

from __future__ import annotations

from pylogbroker.assigning.even import assign_in_ranges, assign_round_robin
from pylogbroker.assigning.sticky import Claim, Claims, assign_sticky, hold_back
from pylogbroker.assigning.user_data import decode_generation, decode_user_data, encode_generation, encode_user_data

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
