"""The built-in plugins, and the package for others' plugins.

Plugin modules lie here, or in `pylogbroker/plugins` (without `__init__.py`) on Python's path. `twisted.plugin` finds
top-level objects that provide an interface of `pylogbroker.interfaces`.
"""

from __future__ import annotations

from typing import Final

from twisted.plugin import pluginPackagePaths

__path__.extend(pluginPackagePaths(__name__))
__all__: list[str] = []

# These keep their names if other plugins use them too.
BUILT_IN: Final = frozenset(
    {
        "archive_parquet",
        "assignors",
        "callback_handlers",
        "delete_policies",
        "oidc_tokens",
        "partitioners",
        "remote_storages",
        "replication_policies",
        "serialization",
        "token_providers",
    }
)
