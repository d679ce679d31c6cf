"""Which plugins are installed: what `twisted.plugin` finds in `pylogbroker.plugins`, by the names that settings use.

    its name                                           then
    is not made of a-z, 0-9 and -                      it is left out
    is that of a built-in one, too                     it is left out, the built-in one keeps its name
    is that of another that is not built in            both are left out: nobody knows which one was meant

What is left out is logged. Who asks for a built-in one needs none of this, nor a directory that can be looked through.
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

_NAME: Final = re.compile(r"[a-z0-9-]+")
log = Logger()


@cache
def built_in(*interfaces: InterfaceClass) -> Mapping[str, Any]:
    """What is built in and provides any of the interfaces, by its name."""
    modules = [import_module(f"{plugins.__name__}.{name}") for name in sorted(plugins.BUILT_IN)]
    found: list[Any] = [each for module in modules for each in vars(module).values() if IPlugin.providedBy(each)]
    return MappingProxyType({each.name: each for each in found if any(one.providedBy(each) for one in interfaces)})


def installed(kind: str, *interfaces: InterfaceClass) -> dict[str, Any]:
    """What provides any of the interfaces, by its name. `kind` is what a user calls such a plugin."""
    found: defaultdict[str, dict[str, object]] = defaultdict(dict)
    for place, plugin in _providers(interfaces):
        name: object = getattr(plugin, "name", None)
        if isinstance(name, str) and _NAME.fullmatch(name):
            found[name][place] = plugin
        else:
            log.error(
                "the {kind} {place} is left out: its name, {name!r}, must be made of a-z, 0-9 and -",
                kind=kind,
                place=place,
                name=name,
            )
    chosen = {name: _chosen(kind, name, claims) for name, claims in found.items()}
    return {name: plugin for name, plugin in chosen.items() if plugin is not None}


def _chosen(kind: str, name: str, claims: dict[str, object]) -> object | None:
    ours = [place for place in claims if _module(place) in plugins.BUILT_IN]
    others = ", ".join(place for place in claims if place not in ours)
    if ours and others:
        log.error("{name} is a built-in {kind}; left out are {others}", kind=kind, name=name, others=others)
    if not ours and len(claims) > 1:
        log.error("two plugins claim to be the {kind} {name}: {others}", kind=kind, name=name, others=others)
        return None
    return claims[ours[0]] if ours else next(iter(claims.values()))


def _module(place: str) -> str:
    return place.removeprefix(f"{plugins.__name__}.").partition(".")[0]


def _providers(interfaces: tuple[InterfaceClass, ...]) -> Iterator[tuple[str, object]]:
    """What `twisted.plugin` finds, and where.

    It tells of a new module that cannot be loaded. One that could be the last time is told of here, once for all that
    it has.
    """
    for module in _dropins():
        try:
            found = [(each.name, _adapted(each, interfaces)) for each in module.plugins]
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            log.error("the plugins in {module} are left out: {why!r}", module=module.moduleName, why=error)
        else:
            yield from ((f"{module.moduleName}.{name}", plugin) for name, plugin in found if plugin is not None)


def _dropins() -> Iterable[CachedDropin]:
    """The modules with plugins; without `twisted.plugin`'s cache where that cannot be written.

    `getCache` would log at every start that it cannot: a broker is often installed by root and run by another user.
    """
    if all(os.access(path, os.W_OK) for path in plugins.__path__ if os.path.isdir(path)):
        cached: dict[str, CachedDropin] = getCache(plugins)
        return cached.values()
    names = sorted({found.name for found in iter_modules(plugins.__path__)})
    return [dropin for name in names if (dropin := _dropin(f"{plugins.__name__}.{name}")) is not None]


def _dropin(name: str) -> CachedDropin | None:
    try:
        module = import_module(name)
    except KeyboardInterrupt:
        raise
    except BaseException:
        log.failure("the plugins in {module} are left out", module=name)
        return None
    dropin = CachedDropin(name, module.__doc__)
    for attribute, value in vars(module).items():
        plugin = IPlugin(value, None)
        if plugin is not None:
            CachedPlugin(dropin, attribute, plugin.__doc__, list(providedBy(plugin)))  # which adds itself
    return dropin


def _adapted(plugin: object, interfaces: tuple[InterfaceClass, ...]) -> object | None:
    return next((found for interface in interfaces if (found := interface(plugin, None)) is not None), None)
