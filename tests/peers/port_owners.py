"""The process that listens on a port of the loopback address: clients of a server must not reach another one.

A port is chosen while nobody listens on it, but another program may take it before the server does. To a connection,
both look alike. So every server that is started here, and every broker under test or measurement, is checked once.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.peers.maven import PeerError

_LISTENING: Final = "0A"
_LOOPBACK: Final = f"{int.from_bytes(socket.inet_aton('127.0.0.1'), sys.byteorder):08X}"


def check_owner(port: int, pid: int) -> None:
    """Raise PeerError unless a process, or one below it, is the one that clients reach at 127.0.0.1:port."""
    listening = _listening_sockets(port)
    own = {each for process in _with_descendants(pid) for each in _sockets_of(process)}
    if not listening:
        raise PeerError(f"process {pid} should listen on 127.0.0.1:{port}, but nobody does")
    if listening - own:
        raise PeerError(
            f"127.0.0.1:{port} was to be the port of process {pid}, but {_named_owner(listening - own)} listens there:"
            " clients would reach the wrong server. It has taken the port meanwhile; run this again"
        )


def _listening_sockets(port: int) -> set[str]:
    """Return the inodes of the sockets that get connections to the loopback address: an exact address comes first."""
    found: dict[str, set[str]] = {}
    for table in ("tcp", "tcp6"):
        with suppress(FileNotFoundError):
            for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
                fields = line.split()
                address, _, number = fields[1].rpartition(":")
                if fields[3] == _LISTENING and int(number, 16) == port:
                    found.setdefault(address, set()).add(fields[9])
    exact = {each for address, inodes in found.items() if address.endswith(_LOOPBACK) for each in inodes}
    return exact or {each for address, inodes in found.items() if not int(address, 16) for each in inodes}


def _with_descendants(pid: int) -> Iterator[int]:
    yield pid
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield from _with_descendants(int(child))


def _sockets_of(pid: int) -> set[str]:
    found = set()
    with suppress(OSError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                target = os.readlink(descriptor)
                if target.startswith("socket:["):
                    found.add(target.removeprefix("socket:[").rstrip("]"))
    return found


def _named_owner(inodes: set[str]) -> str:
    for directory in Path("/proc").glob("[0-9]*"):
        if inodes & _sockets_of(int(directory.name)):
            with suppress(OSError):
                command = (directory / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                return f"process {directory.name} ({command.strip()[:200]})"
    return "a process of another user"
