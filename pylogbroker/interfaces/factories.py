"""What all plugins of a client have in common: how settings name them, and how they are made."""

# ruff: noqa: N805  (the methods of an interface have no self)

from __future__ import annotations

from collections.abc import Mapping

from zope.interface import Attribute, Interface


class INamed(Interface):
    """Something that settings can name."""

    name: str = Attribute("What settings call it, made of a-z, 0-9 and -; unlike that of any other of its kind.")


class IPluginFactory(INamed):
    """Makes plugins of one kind; which one, the interface says that is derived from this one.

    An instance, which provides `twisted.plugin.IPlugin` too, stands at the top level of a module that lies in a
    directory `pylogbroker/plugins`, without an `__init__.py`, of any directory of Python's path. A plugin without state
    can stand there itself, without a factory, if it provides `INamed`: then all clients of the process share it.
    """

    def make(argument: str, settings: Mapping[str, object]) -> object:
        """A plugin for one client.

        `argument` is what the setting has behind the name and a colon: "-" in `partitioner.class=key-prefix:-`; empty
        if it has none. `settings` are the client's, by their names, immutable.

        Raises ValueError, whose text ends the sentence "... is not accepted; ", if the argument is of no use. Must not
        block.
        """
