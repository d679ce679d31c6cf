"""Notifications of changed settings: `/config/changes/config_change_<seq>` names the entity by its path below /config.

{"version":2,"entity_path":"topics/orders"}
"""

from __future__ import annotations

import json
from typing import Final

from pylogbroker.interfaces import Create
from pylogbroker.metadata import zk_paths

_VERSION: Final = 2


def encode_change(entity_path: str) -> bytes:
    return json.dumps({"version": _VERSION, "entity_path": entity_path}, separators=(",", ":")).encode()


def notification(entity_path: str) -> Create:
    return Create(zk_paths.CONFIG_CHANGE_PREFIX, encode_change(entity_path), sequence=True)


def changed_entity(data: bytes | None) -> str:
    """Return the path of the entity; empty for what is no such notification."""
    try:
        path = json.loads(data or b"")["entity_path"]
    except (ValueError, KeyError, TypeError):
        return ""
    return path if isinstance(path, str) else ""
