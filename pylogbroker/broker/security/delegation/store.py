"""Delegation tokens in the coordination tree: read at the start, followed by notifications, and changed.

A change compares and sets the version of the token's node. In a cluster it writes a notification in the same
transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import attrs
from twisted.logger import Logger

from pylogbroker.broker.metadata.followed_nodes import FollowedNodes
from pylogbroker.broker.runtime.resources import Runtime
from pylogbroker.interfaces import Create, Delete, ITree, Node, Operation, SetData
from pylogbroker.metadata.registration import create_permanent_nodes
from pylogbroker.security.delegation import tree_layout
from pylogbroker.security.delegation.tokens import DelegationToken, TokenTable
from pylogbroker.security.delegation.tree_layout import BadToken

log = Logger()

_TokenChange = Callable[[DelegationToken | None], DelegationToken | None]
"""Maps a token to its next state, None for none; raises KafkaError."""


@attrs.define(eq=False, repr=False)
class TokenStore:
    """`in_force` has the tokens, once the store is open."""

    _tree: ITree
    _runtime: Runtime
    _notifies: bool
    in_force: TokenTable
    _nodes: FollowedNodes = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        acts = {tree_layout.CHANGES: self._read_changed}
        read_all = partial(self._read_each, None)
        self._nodes = FollowedNodes(self._tree, self._runtime, "delegation tokens", read_all, acts)

    async def open(self) -> None:
        """Read all tokens, and follow their changes from now on; raise CoordinationError."""
        await create_permanent_nodes(self._tree, tree_layout.PERMANENT_PATHS)
        await self._nodes.open()

    def close(self) -> None:
        self._nodes.close()

    async def change(self, token_id: str, change: _TokenChange) -> DelegationToken | None:
        """Change a token, and return its new state; raise KafkaError."""
        return await self._nodes.change(tree_layout.path(token_id), partial(self._write, token_id, change))

    async def _write(self, token_id: str, change: _TokenChange, node: Node | None) -> DelegationToken | None:
        before = _decoded(token_id, node)
        after = change(before)
        if after != before:
            await self._tree.commit(self._operations(token_id, after, node))
        self.in_force.replace(token_id, after)
        return after

    def _operations(self, token_id: str, after: DelegationToken | None, node: Node | None) -> list[Operation]:
        path = tree_layout.path(token_id)
        operations: list[Operation] = []
        if after is not None:
            data = tree_layout.encode_token(after)
            operations.append(Create(path, data) if node is None else SetData(path, data, node.stat.version))
        elif node is not None:
            operations.append(Delete(path, node.stat.version))
        if self._notifies:
            operations.append(Create(tree_layout.CHANGE_PREFIX, tree_layout.encode_change(token_id), sequence=True))
        return operations

    async def _read_changed(self, notifications: Sequence[bytes | None]) -> None:
        ids = [token_id for token_id in map(tree_layout.decode_change, notifications) if token_id is not None]
        await self._read_each(dict.fromkeys(ids))

    async def _read_each(self, ids: Iterable[str] | None) -> None:
        """Read some tokens, or all."""
        if ids is None:
            ids = dict.fromkeys([*await self._tree.children(tree_layout.TOKENS), *self.in_force.ids])
        token_ids = list(ids)
        nodes = await self._tree.get_many([tree_layout.path(token_id) for token_id in token_ids])
        async for token_id, node in self._runtime.slices.over(zip(token_ids, nodes, strict=True)):
            self.in_force.replace(token_id, _decoded(token_id, node))


def _decoded(token_id: str, node: Node | None) -> DelegationToken | None:
    """Return a node's token; None, with a line in the log, if the node cannot be read."""
    if node is None:
        return None
    try:
        token = tree_layout.decode_token(node.data)
        if token.token_id != token_id:
            raise BadToken("its id is that of another token")
    except BadToken as error:
        log.error("a stored delegation token cannot be read, nobody can connect by it: {why}", why=error)
        return None
    return token
