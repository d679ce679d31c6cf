"""Plugins by name, as they are found, and whether an object is fit to be one."""

from __future__ import annotations

from typing import Any

import attrs
from twisted.logger import Logger
from zope.interface import Invalid
from zope.interface.interface import InterfaceClass
from zope.interface.verify import verifyObject

log = Logger()


@attrs.define
class Installed:
    """Plugins of a kind by name, and why others were ignored."""

    plugins: dict[str, Any] = attrs.field(factory=dict)
    ignored: dict[str, str] = attrs.field(factory=dict)  # by name

    def unknown(self, name: str) -> str:
        """Return the end of an error about a name that no plugin has."""
        why = self.ignored.get(name, "no others are installed")
        return f"expected any of {', '.join(sorted(self.plugins))}; {why}"

    def ignore(self, name: object, why: str) -> None:
        log.error("{why}", why=why)
        if isinstance(name, str):
            self.ignored[name] = why


def why_unfit(interface: InterfaceClass, plugin: object) -> str | None:
    """Return why an object does not provide an interface, with all its methods and their arguments; None if it does."""
    try:
        verifyObject(interface, plugin)
    except Invalid as error:
        return " ".join(str(error).split())
    return None
