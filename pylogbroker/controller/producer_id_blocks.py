"""Blocks of producer ids. Source: Kafka's ZkProducerIdManager.

The node has the block that was assigned last; the next one follows it. The write names the node's version, so that no
two brokers get one block.
"""

from __future__ import annotations

from typing import Final

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.interfaces import Node, SetData
from pylogbroker.metadata import zk_paths, zk_schema
from pylogbroker.metadata.zk_schema import PRODUCER_ID_BLOCK_SIZE, ProducerIdBlock

_PRODUCER_ID_MAX: Final = 2**63 - 1


def next_block(node: Node, broker_id: int) -> tuple[ProducerIdBlock, SetData]:
    """Return the next block and the write that assigns it; raise UNKNOWN_SERVER_ERROR after the last one."""
    last = zk_schema.decode_producer_ids(node.data)
    first = last.last + 1 if last else 0
    block = ProducerIdBlock(broker_id, first, first + PRODUCER_ID_BLOCK_SIZE - 1)
    if block.last > _PRODUCER_ID_MAX:
        raise KafkaError("All producer ids have been assigned", ErrorCode.UNKNOWN_SERVER_ERROR)
    data = zk_schema.encode_producer_ids(block)
    return block, SetData(zk_paths.PRODUCER_ID_BLOCK, data, node.stat.version)
