"""Requests and answers of ZooKeeper's protocol, as clients of version 3.4 to 3.9 send them.

Each message is a frame: four bytes of length, then

    first request   protocol version int, last zxid seen long, timeout int, session id long, password buffer,
                    read-only bool (not from old clients)
    first answer    protocol version int, timeout int, session id long, password buffer, read-only bool
    request         xid int, type int, and by type what `decode` reads
    answer          xid int, zxid long, error int, and without an error the body
    event           as an answer with xid -1: type int, state int, path string

Source: ZooKeeper's `zookeeper.jute` and `ZooDefs.OpCode`, release 3.8.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum, IntFlag
from typing import Final

import attrs

from pylogbroker.interfaces import (
    Acl,
    BadVersion,
    Check,
    CoordinationError,
    Create,
    Delete,
    InvalidAcl,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    NotPermitted,
    Operation,
    Permission,
    SetData,
)
from pylogbroker.tree import jute
from pylogbroker.tree.jute import Malformed, Reader
from pylogbroker.tree.rows import Row
from pylogbroker.tree.transactions import SetAcl, TreeEvent

_EVENT_XID: Final = -1
AUTH_XID: Final = -4
_CONNECTED_STATE: Final = 3  # SyncConnected, in events


class BadPath(Malformed):
    """The text is no path of a node."""


class OpCode(IntEnum):
    CREATE = 1
    DELETE = 2
    EXISTS = 3
    GET_DATA = 4
    SET_DATA = 5
    GET_ACL = 6
    SET_ACL = 7
    GET_CHILDREN = 8
    SYNC = 9
    PING = 11
    GET_CHILDREN_2 = 12
    CHECK = 13
    MULTI = 14
    CREATE_2 = 15
    CHECK_WATCHES = 17
    REMOVE_WATCHES = 18
    CREATE_CONTAINER = 19
    CREATE_TTL = 21
    AUTH = 100
    SET_WATCHES = 101
    GET_EPHEMERALS = 103
    GET_ALL_CHILDREN_NUMBER = 104
    SET_WATCHES_2 = 105
    ADD_WATCH = 106
    WHO_AM_I = 107
    CLOSE = -11


class Error(IntEnum):
    OK = 0
    SYSTEM = -1
    INCONSISTENT = -2  # an operation of a failed multi after the failed one
    MARSHALLING = -5
    UNIMPLEMENTED = -6
    BAD_ARGUMENTS = -8
    NO_NODE = -101
    NO_AUTH = -102
    BAD_VERSION = -103
    NO_CHILDREN_FOR_EPHEMERALS = -108
    NODE_EXISTS = -110
    NOT_EMPTY = -111
    INVALID_ACL = -114
    AUTH_FAILED = -115
    NO_WATCHER = -121


_ERRORS: Final[dict[type[CoordinationError], Error]] = {
    NoNode: Error.NO_NODE,
    NotPermitted: Error.NO_AUTH,
    BadVersion: Error.BAD_VERSION,
    NoChildrenForEphemerals: Error.NO_CHILDREN_FOR_EPHEMERALS,
    NodeExists: Error.NODE_EXISTS,
    NotEmpty: Error.NOT_EMPTY,
    InvalidAcl: Error.INVALID_ACL,
}


def error_of(error: CoordinationError) -> Error:
    return _ERRORS.get(type(error), Error.SYSTEM)


class _CreateFlag(IntFlag):
    EPHEMERAL = 1
    SEQUENCE = 2


class WatcherType(IntEnum):
    CHILDREN = 1
    DATA = 2
    ANY = 3


@attrs.frozen
class Connect:
    last_zxid_seen: int
    timeout_ms: int
    session_id: int  # 0: a new session
    password: bytes
    has_read_only: bool  # answered with the field, too


@attrs.frozen
class Change:
    """A create, setData, setACL, delete or check; alone, or in a multi."""

    op: OpCode
    operation: Operation | SetAcl


@attrs.frozen
class Multi:
    changes: Sequence[Change]


@attrs.frozen
class Read:
    """An exists, getData, getACL, getChildren, getChildren2, getEphemerals or getAllChildrenNumber."""

    op: OpCode
    path: str
    watch: bool = False


@attrs.frozen
class SyncNode:
    path: str


@attrs.frozen
class SetWatches:
    """Watches of a client that has reconnected, in ZooKeeper's order of kinds; a change since the zxid is an event."""

    since: int
    data: Sequence[str]
    exists: Sequence[str]
    children: Sequence[str]
    persistent: Sequence[str] = ()
    recursive: Sequence[str] = ()


@attrs.frozen
class AddWatch:
    path: str
    recursive: bool


@attrs.frozen
class ForWatches:
    """A checkWatches, or a removeWatches."""

    path: str
    type: WatcherType
    remove: bool


@attrs.frozen
class Auth:
    scheme: str
    credentials: bytes


@attrs.frozen
class Ping:
    pass


@attrs.frozen
class Close:
    pass


@attrs.frozen
class WhoAmI:
    pass


@attrs.frozen
class Unsupported:
    error: Error


Request = (
    Change | Multi | Read | SyncNode | SetWatches | AddWatch | ForWatches | Auth | Ping | Close | WhoAmI | Unsupported
)


def decode_connect(data: bytes) -> Connect:
    reader = Reader(data)
    reader.integer()
    last_zxid, timeout_ms, session_id = reader.long(), reader.integer(), reader.long()
    password = reader.buffer() or b""
    return Connect(last_zxid, timeout_ms, session_id, password, not reader.is_at_end)


def decode(data: bytes) -> tuple[int, Request]:
    """Return a request and its xid; raise Malformed."""
    reader = Reader(data)
    xid, op = reader.integer(), reader.integer()
    decoder = _DECODERS.get(op)
    if decoder is None:
        return xid, Unsupported(Error.UNIMPLEMENTED)
    try:
        return xid, decoder(op, reader)
    except BadPath:
        return xid, Unsupported(Error.BAD_ARGUMENTS)


def _acl(reader: Reader) -> list[Acl]:
    def entry() -> Acl:
        permissions = reader.integer()
        return Acl(reader.string(), reader.string(), Permission(permissions & Permission.ALL))

    return reader.vector(entry)


def _path(path: str) -> str:
    """Check a path with ZooKeeper's rules; raise BadPath."""
    parts = path.split("/")
    is_valid = path == "/" or (path.startswith("/") and all(part not in ("", ".", "..") for part in parts[1:]))
    if not is_valid or any(ord(char) < 0x20 or 0x7F <= ord(char) <= 0x9F for char in path):
        raise BadPath(path)
    return path


def _change(op: int, reader: Reader) -> Request:
    path = reader.string()
    if op in (OpCode.CREATE, OpCode.CREATE_2, OpCode.CREATE_CONTAINER):
        data, acl, flags = reader.buffer(), _acl(reader), reader.integer()
        if op == OpCode.CREATE_CONTAINER or flags > 3:
            return Unsupported(Error.UNIMPLEMENTED)
        is_sequence = bool(flags & _CreateFlag.SEQUENCE)
        _path(f"{path}1" if is_sequence else path)
        return Change(OpCode(op), Create(path, data, bool(flags & _CreateFlag.EPHEMERAL), is_sequence, acl))
    _path(path)
    operation: Operation | SetAcl
    if op == OpCode.SET_DATA:
        operation = SetData(path, reader.buffer(), reader.integer())
    elif op == OpCode.SET_ACL:
        operation = SetAcl(path, _acl(reader), reader.integer())
    elif op == OpCode.DELETE:
        operation = Delete(path, reader.integer())
    else:
        operation = Check(path, reader.integer())
    return Change(OpCode(op), operation)


def _multi(op: int, reader: Reader) -> Request:
    changes: list[Change] = []
    while True:
        kind, is_done, _ = reader.integer(), reader.boolean(), reader.integer()
        if is_done:
            return Multi(changes)
        decoder = _DECODERS.get(kind)
        change = _change(kind, reader) if decoder is _change else Unsupported(Error.UNIMPLEMENTED)
        if not isinstance(change, Change):
            return change
        changes.append(change)


def _read(op: int, reader: Reader) -> Request:
    has_watch = op not in (OpCode.GET_ACL, OpCode.GET_EPHEMERALS, OpCode.GET_ALL_CHILDREN_NUMBER)
    path = reader.string()
    if op != OpCode.GET_EPHEMERALS:
        _path(path)
    return Read(OpCode(op), path, has_watch and reader.boolean())


def _set_watches(op: int, reader: Reader) -> Request:
    kinds = 5 if op == OpCode.SET_WATCHES_2 else 3
    return SetWatches(reader.long(), *(reader.vector(reader.string) for _ in range(kinds)))


def _add_watch(op: int, reader: Reader) -> Request:
    path, mode = _path(reader.string()), reader.integer()
    return AddWatch(path, bool(mode)) if mode in (0, 1) else Unsupported(Error.BAD_ARGUMENTS)


def _for_watches(op: int, reader: Reader) -> Request:
    path, kind = reader.string(), reader.integer()
    try:
        return ForWatches(path, WatcherType(kind), op == OpCode.REMOVE_WATCHES)
    except ValueError:
        return Unsupported(Error.BAD_ARGUMENTS)


def _auth(op: int, reader: Reader) -> Request:
    reader.integer()
    return Auth(reader.string(), reader.buffer() or b"")


_CHANGES = (
    OpCode.CREATE,
    OpCode.CREATE_2,
    OpCode.CREATE_CONTAINER,
    OpCode.DELETE,
    OpCode.SET_DATA,
    OpCode.SET_ACL,
    OpCode.CHECK,
)
_READS = (
    OpCode.EXISTS,
    OpCode.GET_DATA,
    OpCode.GET_ACL,
    OpCode.GET_CHILDREN,
    OpCode.GET_CHILDREN_2,
    OpCode.GET_EPHEMERALS,
    OpCode.GET_ALL_CHILDREN_NUMBER,
)
_DECODERS: Final[dict[int, Callable[[int, Reader], Request]]] = {
    **dict.fromkeys(_CHANGES, _change),
    **dict.fromkeys(_READS, _read),
    OpCode.MULTI: _multi,
    OpCode.SYNC: lambda op, reader: SyncNode(_path(reader.string())),
    OpCode.SET_WATCHES: _set_watches,
    OpCode.SET_WATCHES_2: _set_watches,
    OpCode.ADD_WATCH: _add_watch,
    OpCode.CHECK_WATCHES: _for_watches,
    OpCode.REMOVE_WATCHES: _for_watches,
    OpCode.AUTH: _auth,
    OpCode.PING: lambda op, reader: Ping(),
    OpCode.CLOSE: lambda op, reader: Close(),
    OpCode.WHO_AM_I: lambda op, reader: WhoAmI(),
}


def connect_answer(timeout_ms: int, session_id: int, password: bytes, has_read_only: bool) -> bytes:
    answer = jute.integer(0) + jute.integer(timeout_ms) + jute.long(session_id) + jute.buffer(password)
    return answer + jute.boolean(False) if has_read_only else answer


def answer(xid: int, zxid: int, error: Error = Error.OK, body: bytes = b"") -> bytes:
    return jute.integer(xid) + jute.long(zxid) + jute.integer(error) + body


def event(happened: TreeEvent) -> bytes:
    body = jute.integer(happened.type) + jute.integer(_CONNECTED_STATE) + jute.string(happened.path)
    return answer(_EVENT_XID, -1, body=body)


def stat(row: Row, child_count: int) -> bytes:
    return b"".join(
        (
            jute.long(row.created),
            jute.long(row.modified),
            jute.long(row.created_ms),
            jute.long(row.modified_ms),
            jute.integer(row.version),
            jute.integer(row.children_version),
            jute.integer(row.acl_version),
            jute.long(row.owner),
            jute.integer(len(row.data or b"")),
            jute.integer(child_count),
            jute.long(row.children_modified),
        )
    )


def acl(entries: Sequence[Acl]) -> bytes:
    return jute.vector(
        [jute.integer(entry.permissions) + jute.string(entry.scheme) + jute.string(entry.id) for entry in entries]
    )


def multi_header(op: int, is_done: bool, error: int) -> bytes:
    return jute.integer(op) + jute.boolean(is_done) + jute.integer(error)
