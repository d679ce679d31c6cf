"""Producer ids, unique in the cluster, taken from the coordination tree in blocks. A stop loses the rest of one."""

from __future__ import annotations

from collections.abc import Callable

import attrs
from twisted.internet.defer import DeferredLock
from twisted.logger import Logger

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.interfaces import ITree, SetData, Unavailable
from pylogbroker.metadata.zk_paths import PRODUCER_ID_BLOCK
from pylogbroker.metadata.zk_schema import ProducerIdBlock, decode_producer_ids, encode_producer_ids

BLOCK_SIZE = 1000
log = Logger()


@attrs.define
class ProducerIds:
    _tree: ITree
    _node_id: int
    _is_due: Callable[[str], bool] = lambda about: True  # limits log lines
    _next: int = attrs.field(default=0, init=False)
    _end: int = attrs.field(default=0, init=False)
    _lock: DeferredLock = attrs.field(factory=DeferredLock, init=False)

    async def take(self) -> int:
        """Return a new id, or raise an error that makes clients try again while the tree is unavailable."""
        await self._lock.acquire()
        try:
            if self._next == self._end:
                await self._take_block()
            self._next += 1
            return self._next - 1
        except Unavailable as error:
            if self._is_due(f"producer ids: {type(error).__name__}"):
                log.error("no producer ids could be taken: {why}", why=error)
            raise KafkaError(str(error), ErrorCode.COORDINATOR_LOAD_IN_PROGRESS) from error
        finally:
            self._lock.release()

    async def _take_block(self) -> None:
        node = await self._tree.get(PRODUCER_ID_BLOCK)
        last = decode_producer_ids(node.data)
        first = last.last + 1 if last else 0
        block = ProducerIdBlock(broker=self._node_id, first=first, last=first + BLOCK_SIZE - 1)
        await self._tree.commit([SetData(PRODUCER_ID_BLOCK, encode_producer_ids(block), node.stat.version)])
        self._next, self._end = first, first + BLOCK_SIZE
