"""ZooKeeper's commands of four letters, as far as tools and clients ask a single server for its state."""

from __future__ import annotations

from typing import Final

from pylogbroker.tree.database import TreeDatabase

_VERSION: Final = "3.8.0-pylogbroker"  # whose protocol is served
WORDS: Final = (b"ruok", b"srvr", b"stat", b"envi", b"mntr", b"isro")


def answer_word(word: bytes, database: TreeDatabase, connections: int, sessions: int) -> bytes:
    match word:
        case b"ruok":
            return b"imok"
        case b"isro":
            return b"rw"
        case b"envi":
            return f"Environment:\nzookeeper.version={_VERSION}\n".encode()
        case b"mntr":
            lines = [
                ("zk_version", _VERSION),
                ("zk_server_state", "standalone"),
                ("zk_num_alive_connections", connections),
                ("zk_global_sessions", sessions),
                ("zk_znode_count", len(database.nodes)),
            ]
            return "".join(f"{name}\t{value}\n" for name, value in lines).encode()
    lines_ = (
        f"Zookeeper version: {_VERSION}",
        f"Connections: {connections}",
        f"Zxid: 0x{database.last:x}",
        "Mode: standalone",
        f"Node count: {len(database.nodes)}",
    )
    return "".join(f"{line}\n" for line in lines_).encode()
