"""The messages: one module per API, and all of them by API key, each imported when it is first asked for.

So a client that needs some of them does not wait for the others: to make a message's class takes milliseconds.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Final

from pylogbroker.wire.schema import Request, Response

_MODULES: Final = {
    0: "produce",
    1: "fetch",
    2: "list_offsets",
    3: "metadata",
    8: "offset_commit",
    9: "offset_fetch",
    10: "find_coordinator",
    11: "join_group",
    12: "heartbeat",
    13: "leave_group",
    14: "sync_group",
    15: "describe_groups",
    16: "list_groups",
    18: "api_versions",
    19: "create_topics",
    20: "delete_topics",
    21: "delete_records",
    22: "init_producer_id",
    23: "offset_for_leader_epoch",
    24: "add_partitions_to_txn",
    25: "add_offsets_to_txn",
    26: "end_txn",
    27: "write_txn_markers",
    28: "txn_offset_commit",
    29: "describe_acls",
    30: "create_acls",
    31: "delete_acls",
    32: "describe_configs",
    33: "alter_configs",
    35: "describe_log_dirs",
    37: "create_partitions",
    42: "delete_groups",
    44: "incremental_alter_configs",
    47: "offset_delete",
    60: "describe_cluster",
    61: "describe_producers",
    65: "describe_transactions",
    66: "list_transactions",
    75: "describe_topic_partitions",
}


class Apis(Mapping[int, tuple[type[Request], type[Response]]]):
    """The request and the response of each API, by its key."""

    def __init__(self) -> None:
        self._imported: dict[int, tuple[type[Request], type[Response]]] = {}

    def __getitem__(self, api_key: int) -> tuple[type[Request], type[Response]]:
        found = self._imported.get(api_key)
        if found is None:
            name = _MODULES[api_key]
            module, stem = import_module(f"{__name__}.{name}"), name.title().replace("_", "")
            found = getattr(module, f"{stem}Request"), getattr(module, f"{stem}Response")
            self._imported[api_key] = found
        return found

    def __iter__(self) -> Iterator[int]:
        return iter(_MODULES)

    def __len__(self) -> int:
        return len(_MODULES)


SUPPORTED: Final = Apis()
"""The declared APIs; `request.versions` says which versions."""
