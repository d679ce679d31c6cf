"""Discovery of installed plugins: those that `twisted.plugin` finds in `pylogbroker.plugins`, by name.

    plugin name                                        result
    not made of a-z, 0-9 and -                         the plugin is ignored
    also the name of a built-in plugin                 the plugin is ignored, the built-in one is used
    shared by two plugins, neither built in            both are ignored: the choice would be ambiguous

Ignored plugins are logged, and the error for their name says why. Finding a built-in plugin needs no readable plugin
directory.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType
from typing import Any, Final

from twisted.logger import Logger
from twisted.plugin import CachedDropin, CachedPlugin, IPlugin, getCache
from zope.interface import providedBy
from zope.interface.interface import InterfaceClass

from pylogbroker import plugins
from pylogbroker.named_plugins import Installed

_NAME: Final = re.compile(r"[a-z0-9-]+")
log = Logger()


@cache
def built_in(*interfaces: InterfaceClass) -> Mapping[str, Any]:
    """Return the built-in plugins that provide any of the interfaces, by name."""
    modules = [import_module(f"{plugins.__name__}.{name}") for name in sorted(plugins.BUILT_IN)]
    candidates: list[Any] = [
        candidate for module in modules for candidate in vars(module).values() if IPlugin.providedBy(candidate)
    ]
    return MappingProxyType(
        {plugin.name: plugin for plugin in candidates if any(one.providedBy(plugin) for one in interfaces)}
    )


def installed(kind: str, *interfaces: InterfaceClass) -> Installed:
    """Return the plugins that provide any of the interfaces; log lines call them `kind`."""
    result = Installed()
    by_name: defaultdict[str, dict[str, object]] = defaultdict(dict)
    for place, plugin in _providers(interfaces):
        name: object = getattr(plugin, "name", None)
        if isinstance(name, str) and _NAME.fullmatch(name):
            by_name[name][place] = plugin
        else:
            result.ignore(name, f"ignored the {kind} {place}: its name, {name!r}, must be made of a-z, 0-9 and -")
    for name, claims in by_name.items():
        ours = [place for place in claims if _module(place) in plugins.BUILT_IN]
        others = ", ".join(place for place in claims if place not in ours)
        if ours and others:
            log.error("ignored {others}: {name} is the name of a built-in {kind}", kind=kind, name=name, others=others)
        if not ours and len(claims) > 1:
            result.ignore(name, f"ignored {others}: more than one {kind} is named {name}")
        else:
            result.plugins[name] = claims[ours[0] if ours else next(iter(claims))]
    return result


def not_declared(kind: str, name: str, *interfaces: InterfaceClass) -> str:
    """Return what keeps modules of plugins from having a plugin of this name, or an empty text.

    It imports all of them: errors of a program that starts may take that time.
    """
    problems = []
    for module_name in _module_names():
        try:
            module = import_module(module_name)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            problems.append(f"{module_name} cannot be imported: {error!r}")
            continue
        for attribute, value in vars(module).items():
            if getattr(value, "name", None) == name and not isinstance(value, type):
                declared = ", ".join(sorted(interface.__name__ for interface in providedBy(value))) or "no interface"
                needed = " or ".join(interface.__name__ for interface in interfaces)
                problems.append(
                    f"{module_name}.{attribute} has this name, but provides {declared}: "
                    f"{_article(kind)} {kind} needs @implementer(IPlugin, {needed})"
                )
    return "; ".join(problems)


def _article(noun: str) -> str:
    return "an" if noun[0] in "aeiou" else "a"


def _module(place: str) -> str:
    return place.removeprefix(f"{plugins.__name__}.").partition(".")[0]


def _providers(interfaces: tuple[InterfaceClass, ...]) -> Iterator[tuple[str, object]]:
    """Yield each plugin that `twisted.plugin` finds, after its place.

    `twisted.plugin` logs a new module that cannot be loaded; a cached one that no longer can be is logged here.
    """
    for module in _dropins():
        try:
            pairs = [(plugin.name, _adapted(plugin, interfaces)) for plugin in module.plugins]
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            log.error("ignored the plugins in {module}: {why!r}", module=module.moduleName, why=error)
        else:
            yield from ((f"{module.moduleName}.{name}", plugin) for name, plugin in pairs if plugin is not None)


_remembered: list[CachedDropin] = []


def remember_installed() -> None:
    """Import all plugins now, for a process that loses sight of their files."""
    _remembered[:] = _imported()


def _dropins() -> Iterable[CachedDropin]:
    """Return the modules with plugins; use `twisted.plugin`'s cache only where it is writable.

    A broker is often installed by root and run by another user, or imported from a zip file; `getCache` would then log
    an error at every start.
    """
    if _remembered:
        return _remembered
    own, *others = plugins.__path__
    if os.access(own, os.W_OK) and all(os.access(path, os.W_OK) for path in others if os.path.isdir(path)):
        cached: dict[str, CachedDropin] = getCache(plugins)
        return cached.values()
    return _imported()


def _imported() -> list[CachedDropin]:
    return [dropin for name in _module_names() if (dropin := _dropin(name)) is not None]


def _module_names() -> list[str]:
    return sorted({f"{plugins.__name__}.{module.name}" for module in iter_modules(plugins.__path__)})


def _dropin(name: str) -> CachedDropin | None:
    try:
        module = import_module(name)
    except KeyboardInterrupt:
        raise
    except BaseException:
        log.failure("ignored the plugins in {module}", module=name)
        return None
    dropin = CachedDropin(name, module.__doc__)
    for attribute, value in vars(module).items():
        plugin = IPlugin(value, None)
        if plugin is not None:
            CachedPlugin(dropin, attribute, plugin.__doc__, list(providedBy(plugin)))  # adds itself
    return dropin


def _adapted(plugin: object, interfaces: tuple[InterfaceClass, ...]) -> object | None:
    return next((adapted for interface in interfaces if (adapted := interface(plugin, None)) is not None), None)
