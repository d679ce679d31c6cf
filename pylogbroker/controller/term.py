"""Term of a controller, from its election to its resignation.

Source: KafkaZkClient.registerControllerAndIncrementEpoch.

    /controller_epoch   read, or created as 0
    transaction         create /controller (ephemeral), set /controller_epoch to the next epoch at the version read

The transaction's outcome may be unknown: the broker is elected if both nodes then have what it wrote.
"""

from __future__ import annotations

from typing import Final

import attrs

from pylogbroker.controller.ports import ControllerTree
from pylogbroker.interfaces import Create, NodeExists, Operation, SetData, Unavailable
from pylogbroker.metadata import zk_paths, zk_schema
from pylogbroker.metadata.zk_schema import ControllerNode

_ATTEMPTS_MAX: Final = 5


@attrs.frozen
class ControllerTerm:
    broker_id: int
    epoch: int
    epoch_version: int
    """Version of /controller_epoch, the fence of all writes."""
    node: bytes
    """Data of /controller, different in each term."""


async def elect(tree: ControllerTree, broker_id: int, now_ms: int) -> ControllerTerm | None:
    """Try to become the controller; return None if another broker is. Raise Unavailable."""
    own = zk_schema.encode_controller(ControllerNode(broker_id, now_ms))
    for _ in range(_ATTEMPTS_MAX):
        controller, epoch_node = await tree.get_many([zk_paths.CONTROLLER, zk_paths.CONTROLLER_EPOCH])
        if controller is not None:
            return None
        if epoch_node is None:
            first = Create(zk_paths.CONTROLLER_EPOCH, zk_schema.encode_controller_epoch(0))
            await tree.commit_each([[first]])
            continue
        epoch = zk_schema.decode_controller_epoch(epoch_node.data) + 1
        version = epoch_node.stat.version
        term = ControllerTerm(broker_id, epoch, version + 1, own)
        claim: list[Operation] = [
            Create(zk_paths.CONTROLLER, own, ephemeral=True),
            SetData(zk_paths.CONTROLLER_EPOCH, zk_schema.encode_controller_epoch(epoch), version),
        ]
        [error] = await tree.commit_each([claim])
        if error is None or (isinstance(error, Unavailable) and await _is_elected(tree, term)):
            return term
        if isinstance(error, NodeExists):
            return None
    return None


async def _is_elected(tree: ControllerTree, term: ControllerTerm) -> bool:
    controller, epoch = await tree.get_many([zk_paths.CONTROLLER, zk_paths.CONTROLLER_EPOCH])
    return (
        controller is not None
        and controller.data == term.node
        and epoch is not None
        and epoch.stat.version == term.epoch_version
    )
