"""Base interfaces of a client's plugins: their names in settings, and their factories."""

# ruff: noqa: N805  (the methods of an interface have no self)

from __future__ import annotations

from collections.abc import Mapping

from zope.interface import Attribute, Interface


class INamed(Interface):
    """Object with a name for use in settings."""

    name: str = Attribute("The name used in settings, made of a-z, 0-9 and -; unique among plugins of its kind.")


class IPluginFactory(INamed):
    """Factory of plugins of one kind, which the derived interface defines.

    Define an instance, which also provides `twisted.plugin.IPlugin`, at the top level of a module. The module lies in a
    directory `pylogbroker/plugins`, without an `__init__.py`, of any directory of Python's path. A plugin without state
    needs no factory: define the plugin itself there, providing `INamed`; all clients of the process then share it.
    """

    def make(argument: str, settings: Mapping[str, object]) -> object:
        """Return a plugin for one client.

        `argument` is the text after the name and a colon in the setting: "-" in `partitioner.class=key-prefix:-`.
        Without one, `argument` is empty. `settings` holds the client's settings by name and is immutable.

        Raise ValueError if the argument is invalid; its text ends the sentence "... is not accepted; ". Must not block.
        """
