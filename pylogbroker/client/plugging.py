"""Resolution of plugins from settings and arguments.

    choice                      plugin
    "json", "key-prefix:-"      the installed plugin of that name, made with the text after the colon
    JSONEncoder()               that object, if it provides the interface
    KeyPrefixFactory()          the plugin that the factory makes

`settings` are all settings of the client, `Values.by_name()`. `guarding` wraps the calls of plugins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar

import attrs
from zope.interface import Invalid
from zope.interface.interface import InterfaceClass
from zope.interface.verify import verifyObject

from pylogbroker.client.errors import PluginFailed
from pylogbroker.discovery import built_in, installed
from pylogbroker.errors import ConfigError
from pylogbroker.interfaces import (
    IAssignor,
    IAssignorFactory,
    ICallbackHandler,
    ICallbackHandlerFactory,
    IDecoder,
    IDecoderFactory,
    IEncoder,
    IEncoderFactory,
    IEventHandler,
    IEventHandlerFactory,
    IPartitioner,
    IPartitionerFactory,
)

T = TypeVar("T")
Settings = Mapping[str, object]


@attrs.frozen
class Kind(Generic[T]):
    """Kind of plugin: its title for users, its interface and its factory's interface."""

    title: str
    interface: InterfaceClass
    factory: InterfaceClass


ENCODER: Final[Kind[IEncoder]] = Kind("encoder", IEncoder, IEncoderFactory)
DECODER: Final[Kind[IDecoder]] = Kind("decoder", IDecoder, IDecoderFactory)
PARTITIONER: Final[Kind[IPartitioner]] = Kind("partitioner", IPartitioner, IPartitionerFactory)
EVENT_HANDLER: Final[Kind[IEventHandler]] = Kind("event handler", IEventHandler, IEventHandlerFactory)
CALLBACK_HANDLER: Final[Kind[ICallbackHandler]] = Kind("callback handler", ICallbackHandler, ICallbackHandlerFactory)
ASSIGNOR: Final[Kind[IAssignor]] = Kind("assignor", IAssignor, IAssignorFactory)


@attrs.frozen
class Plugged(Generic[T]):
    """Plugin in use, with its kind and name."""

    kind: Kind[T]
    name: str
    plugin: T

    def failed(self, error: BaseException | None) -> PluginFailed:
        failure = PluginFailed(self.name, f"the {self.kind.title} failed with {error!r}")
        failure.__cause__ = error
        return failure


def plug(kind: Kind[T], setting: str, choice: object, settings: Settings) -> Plugged[T]:
    """Resolve a choice: a name, a plugin or a factory. Raise ConfigError if it is invalid."""
    if isinstance(choice, str):
        return _plug_named(kind, setting, choice, settings)
    if kind.factory.providedBy(choice):
        return _made(kind, setting, choice, repr(choice), "", settings)
    return _checked(kind, setting, choice, repr(choice), _name_of(choice))


def plug_all(kind: Kind[T], setting: str, choices: object, settings: Settings) -> tuple[Plugged[T], ...]:
    """Resolve several choices, like `plug`: a list, or names separated by commas."""
    if isinstance(choices, str):
        choices = [name for part in choices.split(",") if (name := part.strip())]
    elif not isinstance(choices, Iterable):
        choices = (choices,)
    return tuple(plug(kind, setting, choice, settings) for choice in choices)


def _plug_named(kind: Kind[T], setting: str, text: str, settings: Settings) -> Plugged[T]:
    name, colon, argument = text.partition(":")
    there = built_in(kind.factory, kind.interface)
    if name not in there:
        there = installed(kind.title, kind.factory, kind.interface)
    if name not in there:
        raise _refusal(setting, repr(text), f"expected any of {', '.join(sorted(there))}")
    found = there[name]
    if kind.factory.providedBy(found):
        return _made(kind, setting, found, repr(text), argument, settings)
    if colon:
        raise _refusal(setting, repr(text), f"{name} takes no argument")
    return _checked(kind, setting, found, repr(text), name)


def _made(kind: Kind[T], setting: str, factory: Any, said: str, argument: str, settings: Settings) -> Plugged[T]:
    try:
        plugin = factory.make(argument, MappingProxyType(dict(settings)))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        what = str(error) if isinstance(error, ValueError) else f"making it failed with {error!r}"
        raise _refusal(setting, said, what) from error
    return _checked(kind, setting, plugin, said, _name_of(factory))


def _checked(kind: Kind[T], setting: str, plugin: Any, said: str, name: str) -> Plugged[T]:
    try:
        verifyObject(kind.interface, plugin)
    except Invalid as error:
        what = " ".join(str(error).split())
        raise _refusal(setting, said, f"{what} ({kind.title}s provide {kind.interface.__name__})") from None
    return Plugged(kind, name, plugin)


def _refusal(setting: str, said: str, why: str) -> ConfigError:
    return ConfigError(f"{setting}: {said} is not accepted; {why}")


def _name_of(plugin: object) -> str:
    name: object = getattr(plugin, "name", None)
    return name if isinstance(name, str) and name else type(plugin).__qualname__
