"""Answers to requests that change nothing in the tree: reads, and the watches that they and others set."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

import attrs

from pylogbroker.interfaces import NoNode, NotPermitted, Permission
from pylogbroker.tree import acls, jute
from pylogbroker.tree.acls import Identity
from pylogbroker.tree.database import TreeDatabase
from pylogbroker.tree.rows import Row
from pylogbroker.tree.server import messages
from pylogbroker.tree.server.messages import (
    AddWatch,
    Error,
    ForWatches,
    OpCode,
    Read,
    Request,
    SetWatches,
    SyncNode,
    Unsupported,
    WhoAmI,
)
from pylogbroker.tree.server.watch_manager import Watcher, WatchKind, WatchManager
from pylogbroker.tree.transactions import EventType, TreeEvent

_Answer = tuple[Error, bytes]
_WATCH_KINDS = {
    OpCode.EXISTS: WatchKind.DATA,
    OpCode.GET_DATA: WatchKind.DATA,
    OpCode.GET_CHILDREN: WatchKind.CHILDREN,
    OpCode.GET_CHILDREN_2: WatchKind.CHILDREN,
}
_PERMISSIONS = {
    OpCode.GET_DATA: Permission.READ,
    OpCode.GET_CHILDREN: Permission.READ,
    OpCode.GET_CHILDREN_2: Permission.READ,
    OpCode.GET_ALL_CHILDREN_NUMBER: Permission.READ,
    OpCode.GET_ACL: Permission.READ | Permission.ADMIN,
}


@attrs.define(eq=False, repr=False)
class Reads:
    """Reads of one connection, which is `_watcher`."""

    _database: TreeDatabase
    _watches: WatchManager
    _watcher: Watcher

    def answer(self, request: Request, session_id: int, identities: Collection[Identity]) -> _Answer:
        try:
            match request:
                case Read(op=OpCode.GET_EPHEMERALS):
                    return Error.OK, self._ephemerals(request.path, session_id)
                case Read():
                    return Error.OK, self._read(request, identities)
                case SyncNode():
                    return Error.OK, jute.string(request.path)
                case SetWatches():
                    self._set_watches(request)
                case AddWatch():
                    kind = WatchKind.RECURSIVE if request.recursive else WatchKind.PERSISTENT
                    self._watches.add(self._watcher, kind, request.path)
                    return Error.OK, jute.integer(Error.OK)
                case ForWatches():
                    return self._for_watches(request), b""
                case WhoAmI():
                    return Error.OK, jute.vector(
                        [jute.string(scheme) + jute.string(name) for scheme, name in identities]
                    )
                case Unsupported():
                    return request.error, b""
        except NoNode:
            return Error.NO_NODE, b""
        except NotPermitted:
            return Error.NO_AUTH, b""
        return Error.OK, b""

    def _read(self, read: Read, identities: Collection[Identity]) -> bytes:
        row = self._database.nodes.get(read.path)
        if read.watch and (row is not None or read.op is OpCode.EXISTS):
            self._check(read, row, identities)
            self._watches.add(self._watcher, _WATCH_KINDS[read.op], read.path)
        if row is None:
            raise NoNode(read.path)
        self._check(read, row, identities)
        return self._body(read, row)

    def _check(self, read: Read, row: Row | None, identities: Collection[Identity]) -> None:
        if row is not None and (permission := _PERMISSIONS.get(read.op)) is not None:
            acls.check(read.path, row.acl, permission, identities)

    def _body(self, read: Read, row: Row) -> bytes:
        nodes, path = self._database.nodes, read.path
        stat = messages.stat(row, nodes.child_count(path))
        match read.op:
            case OpCode.EXISTS:
                return stat
            case OpCode.GET_DATA:
                return jute.buffer(row.data) + stat
            case OpCode.GET_ACL:
                return messages.acl(acls.decode(row.acl)) + stat
            case OpCode.GET_CHILDREN:
                return jute.vector([jute.string(name) for name in nodes.children(path)])
            case OpCode.GET_CHILDREN_2:
                return jute.vector([jute.string(name) for name in nodes.children(path)]) + stat
            case _:
                prefix = path.rstrip("/") + "/"
                return jute.integer(sum(node_path.startswith(prefix) and node_path != prefix for node_path in nodes))

    def _ephemerals(self, prefix: str, session_id: int) -> bytes:
        nodes = self._database.nodes
        ephemerals = [path for path in nodes if path.startswith(prefix) and _owner(nodes.get(path)) == session_id]
        return jute.vector([jute.string(path) for path in sorted(ephemerals)])

    def _set_watches(self, request: SetWatches) -> None:
        for event in self._missed(request):
            self._watcher.send_event(event)
        for paths, kind in ((request.persistent, WatchKind.PERSISTENT), (request.recursive, WatchKind.RECURSIVE)):
            for path in paths:
                self._watches.add(self._watcher, kind, path)

    def _missed(self, request: SetWatches) -> Iterator[TreeEvent]:
        """Yield events for what changed since the client's last answer; set the other watches."""
        since = request.since
        yield from self._missed_of(request.data, WatchKind.DATA, EventType.CHANGED, lambda row: row.modified > since)
        for path in request.exists:
            if self._database.nodes.get(path) is not None:
                yield TreeEvent(EventType.CREATED, path)
            else:
                self._watches.add(self._watcher, WatchKind.DATA, path)
        yield from self._missed_of(
            request.children, WatchKind.CHILDREN, EventType.CHILDREN, lambda row: row.children_modified > since
        )

    def _missed_of(
        self, paths: Iterable[str], kind: WatchKind, change: EventType, has_changed: Callable[[Row], bool]
    ) -> Iterator[TreeEvent]:
        for path in paths:
            row = self._database.nodes.get(path)
            if row is None:
                yield TreeEvent(EventType.DELETED, path)
            elif has_changed(row):
                yield TreeEvent(change, path)
            else:
                self._watches.add(self._watcher, kind, path)

    def _for_watches(self, request: ForWatches) -> Error:
        if not self._watches.has(self._watcher, request.path, request.type):
            return Error.NO_WATCHER
        if request.remove:
            self._watches.remove(self._watcher, request.path, request.type)
        return Error.OK


def _owner(row: Row | None) -> int:
    return 0 if row is None else row.owner
