"""Imports of all that a broker may need later, for processes that lose sight of the package's files.

After twistd has changed the root directory or the user, no file of Python's may be readable any more. The handlers of
APIs, installed plugins and parts for which settings ask would be imported only then.
"""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module

from pylogbroker import features
from pylogbroker.broker import apis
from pylogbroker.discovery import remember_installed
from pylogbroker.extras import MissingExtra, required_by


def import_all() -> None:
    """Import a broker's features, except those whose extra is missing, and APIs and plugins."""
    for modules in (*features.OF_A_BROKER.values(), *features.OF_SCHEMAS.values()):
        for name in modules:
            with suppress(MissingExtra), required_by(name):
                import_module(name)
    apis.import_all()
    remember_installed()
