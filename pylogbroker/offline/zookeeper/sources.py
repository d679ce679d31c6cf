"""Read nodes from files and servers."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import attrs

from pylogbroker.features import on_first_use
from pylogbroker.offline.stopped_broker import OfflineError
from pylogbroker.offline.zookeeper import dump, snapshot, transaction_log
from pylogbroker.offline.zookeeper.errors import BadFile

if TYPE_CHECKING:
    from pylogbroker.offline.zookeeper import server
else:
    server = on_first_use("pylogbroker.offline.zookeeper.server")

_SNAPSHOT = re.compile(r"snapshot\.([0-9a-f]{1,16})(?:\.gz)?")
_LOG = re.compile(r"log\.([0-9a-f]{1,16})")
_ADDRESS = re.compile(r"[^/\s]+:\d{1,5}(,[^/\s]+:\d{1,5})*")
_DATA_DIRECTORY = "version-2"

Nodes = dict[str, bytes]
Report = Callable[[str], object]


@attrs.define
class _Files:
    snapshots: dict[int, str] = attrs.field(factory=dict)
    logs: dict[int, str] = attrs.field(factory=dict)


def read_nodes(sources: Sequence[str], chroot: str, report: Report) -> Nodes:
    """Return nodes below `chroot` by relative path; report unreadable files.

    A source is ZooKeeper's dataDir or dataLogDir, a file in one, a dump, or `host:port`. Raise OfflineError for any
    other, or if `chroot` has no nodes.
    """
    chroot = chroot.rstrip("/")
    files, nodes = _Files(), Nodes()
    for source in sources:
        if os.path.exists(source):
            nodes |= _read_source(source, files)
        elif _ADDRESS.fullmatch(source):
            nodes |= server.read_server(source, chroot)
        else:
            raise OfflineError(f"{source} is neither an existing file nor the host:port of a server")
    nodes = _read_files(files, report) | nodes
    relative = {path.removeprefix(chroot): data for path, data in nodes.items() if path.startswith(f"{chroot}/")}
    if not any(path.startswith(("/brokers/", "/consumers/")) for path in relative):
        raise OfflineError(_nothing(sources, chroot, nodes))
    return relative


def _nothing(sources: Sequence[str], chroot: str, nodes: Nodes) -> str:
    others = sorted({path.removesuffix("/brokers/topics") for path in nodes if path.endswith("/brokers/topics")})
    hint = f"; Kafka's nodes are below {', '.join(other or '/' for other in others)}: set --chroot" if others else ""
    return f"{', '.join(sources)} has none of Kafka's nodes below {chroot or '/'}{hint}"


def _read_source(source: str, files: _Files) -> Nodes:
    if os.path.isdir(source):
        inner = f"{source}/{_DATA_DIRECTORY}"
        directory = inner if os.path.isdir(inner) else source
        for name in os.listdir(directory):
            _note(f"{directory}/{name}", name, files)
        if not files.snapshots and not files.logs:
            raise OfflineError(f"{source} has no snapshot.* and no log.* of ZooKeeper")
        return Nodes()
    if _note(source, os.path.basename(source), files):
        return Nodes()
    with open(source, "rb") as file:
        data = file.read()
    try:
        return _read_content(data)
    except BadFile as error:
        raise OfflineError(f"{source}: {error}") from error


def _read_content(data: bytes) -> Nodes:
    if snapshot.is_snapshot(data):
        return snapshot.read_snapshot(data)
    if data.startswith(transaction_log.MAGIC):
        raise BadFile("a transaction log needs its name, log.<zxid>")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise BadFile("neither a snapshot of ZooKeeper nor a dump") from None
    return dump.read_json(text) if text.lstrip().startswith("{") else dump.read_listing(text)


def _note(path: str, name: str, files: _Files) -> bool:
    for pattern, kept in ((_SNAPSHOT, files.snapshots), (_LOG, files.logs)):
        match = pattern.fullmatch(name)
        if match:
            kept[int(match[1], 16)] = path
            return True
    return False


def _read_files(files: _Files, report: Report) -> Nodes:
    nodes, zxid = _newest_snapshot(files, report)
    for path, changes in _transactions(files, zxid, report):
        try:
            for number, changed in changes:
                zxid = max(zxid, number)
                for node, data in changed:
                    if data is None:
                        nodes.pop(node, None)
                    else:
                        nodes[node] = data
        except BadFile as error:
            report(f"{path}: {error}: the rest is not read")
            break
    return nodes


def _newest_snapshot(files: _Files, report: Report) -> tuple[Nodes, int]:
    for zxid in sorted(files.snapshots, reverse=True):
        path = files.snapshots[zxid]
        with open(path, "rb") as file:
            data = file.read()
        try:
            return snapshot.read_snapshot(data), zxid
        except BadFile as error:
            report(f"{path}: {error}: using the previous snapshot")
    if files.snapshots:
        raise OfflineError(f"all snapshots are damaged: {', '.join(sorted(files.snapshots.values()))}")
    return Nodes(), 0


def _transactions(
    files: _Files, zxid: int, report: Report
) -> Iterator[tuple[str, Iterator[tuple[int, list[transaction_log.Change]]]]]:
    """Yield each log with transactions after the snapshot's `zxid`, in order."""
    older = [first for first in files.logs if first <= zxid]
    newer = sorted(first for first in files.logs if first > zxid)
    for first in (*(older and [max(older)]), *newer):
        with open(files.logs[first], "rb") as file:
            yield files.logs[first], transaction_log.read_transactions(file.read(), zxid)
