"""Names of a client's plugins in settings, and plugin factories."""

# ruff: noqa: N805  (the methods of an interface have no self)

from __future__ import annotations

from collections.abc import Mapping

from zope.interface import Attribute, Interface


class INamed(Interface):
    name: str = Attribute("The name used in settings, made of a-z, 0-9 and -; unique among plugins of its kind.")


class IPluginFactory(INamed):
    """Factory of plugins of one kind, which the derived interface defines.

    Define an instance, which also provides `twisted.plugin.IPlugin`, in a plugin module (see `pylogbroker.plugins`). A
    stateless plugin needs no factory: define the plugin itself there, providing `INamed`; all clients of the process
    then share it.
    """

    def make(argument: str, settings: Mapping[str, object]) -> object:
        """Return a plugin for one client.

        `argument` is the text after the name and a colon in the setting: "-" in `partitioner.class=key-prefix:-`;
        without one it is empty. `settings` holds the client's settings by name and is immutable.

        Raise ValueError for an invalid argument; its text ends the sentence "... is not accepted; ". Must not block.
        """
