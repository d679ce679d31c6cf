"""Bodies of the answers to changes."""

from __future__ import annotations

from collections.abc import Sequence

from pylogbroker.tree import jute
from pylogbroker.tree.rows import Nodes, Row
from pylogbroker.tree.server import messages
from pylogbroker.tree.server.messages import Change, Error, OpCode
from pylogbroker.tree.transactions import WriteResult

_WITH_STAT = (OpCode.CREATE_2, OpCode.SET_DATA, OpCode.SET_ACL)


def change_body(op: OpCode, path: str, row: Row | None, nodes: Nodes) -> bytes:
    body = jute.string(path) if op in (OpCode.CREATE, OpCode.CREATE_2) else b""
    if op in _WITH_STAT and row is not None:
        body += messages.stat(row, nodes.child_count(path))
    return body


def multi_body(changes: Sequence[Change], result: WriteResult, nodes: Nodes) -> bytes:
    if result.error is None:
        parts = [
            messages.multi_header(change.op, False, 0) + change_body(change.op, outcome.path, row, nodes)
            for change, outcome, row in zip(changes, result.results, result.rows, strict=True)
        ]
    else:
        code = messages.error_of(result.error)
        codes = [Error.OK] * result.position + [code]
        codes += [Error.INCONSISTENT] * (len(changes) - len(codes))
        parts = [messages.multi_header(-1, False, error_code) + jute.integer(error_code) for error_code in codes]
    return b"".join(parts) + messages.multi_header(-1, True, -1)
