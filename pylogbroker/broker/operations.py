"""The operations that a principal may do on a resource, as the 32-bit field that answers carry (KIP-430).

Bit n stands for the operation of code n.  Without an authorizer everything is allowed, so a field names every operation
that its kind of resource knows; a client that did not ask gets `NOT_ASKED`.
"""

from __future__ import annotations

from enum import IntEnum

NOT_ASKED = -(2**31)


class Operation(IntEnum):
    """The codes of operations, those of access control lists."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


def bit_field(*operations: Operation) -> int:
    """The field that names these operations."""
    return sum(1 << operation for operation in operations)


TOPIC_OPERATIONS = bit_field(
    Operation.READ,
    Operation.WRITE,
    Operation.CREATE,
    Operation.DELETE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)
GROUP_OPERATIONS = bit_field(Operation.READ, Operation.DELETE, Operation.DESCRIBE)
CLUSTER_OPERATIONS = bit_field(
    Operation.CREATE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.CLUSTER_ACTION,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
    Operation.IDEMPOTENT_WRITE,
)
