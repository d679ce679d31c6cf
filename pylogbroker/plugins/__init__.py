"""The built-in plugins, and the package that others drop theirs into.

Modules of plugins lie here, or in a directory `pylogbroker/plugins` of any other directory of Python's path; that one
has no `__init__.py`. `twisted.plugin` finds what they have at their top level and `pylogbroker.interfaces` asks for.
`examples/` has a package of its own that brings one along.
"""

from __future__ import annotations

from typing import Final

from twisted.plugin import pluginPackagePaths

__path__.extend(pluginPackagePaths(__name__))
__all__: list[str] = []

# The modules whose plugins keep their names, whoever else claims them.
BUILT_IN: Final = frozenset({"assignors", "callback_handlers", "delete_policies", "partitioners", "serialization"})
