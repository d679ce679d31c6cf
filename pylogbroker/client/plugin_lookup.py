"""Resolution of plugins from settings and arguments.

    choice                      plugin
    "json", "key-prefix:-"      the installed plugin of that name, made with the text after the colon
    JSONEncoder()               that object, if it provides the interface
    KeyPrefixFactory()          the plugin that the factory makes

`settings` are all settings of the client, `Values.by_name()`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar

import attrs
from zope.interface.interface import InterfaceClass

from pylogbroker.client.errors import PluginFailed
from pylogbroker.client.settings import PLUGIN_ARGUMENTS
from pylogbroker.discovery import built_in, installed, not_declared
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
    ITokenProvider,
    ITokenProviderFactory,
)
from pylogbroker.named_plugins import why_unfit

T = TypeVar("T")
Settings = Mapping[str, object]


@attrs.frozen
class PluginKind(Generic[T]):
    """Kind of plugin; `title` is for users."""

    title: str
    interface: InterfaceClass
    factory: InterfaceClass


ENCODER: Final[PluginKind[IEncoder]] = PluginKind("encoder", IEncoder, IEncoderFactory)
DECODER: Final[PluginKind[IDecoder]] = PluginKind("decoder", IDecoder, IDecoderFactory)
PARTITIONER: Final[PluginKind[IPartitioner]] = PluginKind("partitioner", IPartitioner, IPartitionerFactory)
EVENT_HANDLER: Final[PluginKind[IEventHandler]] = PluginKind("event handler", IEventHandler, IEventHandlerFactory)
CALLBACK_HANDLER: Final[PluginKind[ICallbackHandler]] = PluginKind(
    "callback handler", ICallbackHandler, ICallbackHandlerFactory
)
ASSIGNOR: Final[PluginKind[IAssignor]] = PluginKind("assignor", IAssignor, IAssignorFactory)
TOKEN_PROVIDER: Final[PluginKind[ITokenProvider]] = PluginKind("token provider", ITokenProvider, ITokenProviderFactory)


@attrs.frozen
class ResolvedPlugin(Generic[T]):
    kind: PluginKind[T]
    name: str
    plugin: T

    def failed(self, error: BaseException | None) -> PluginFailed:
        failure = PluginFailed(self.name, f"the {self.kind.title} failed with {error!r}")
        failure.__cause__ = error
        return failure


@contextmanager
def given_as_arguments(settings: Collection[str]) -> Iterator[None]:
    """Let errors about plugins name the arguments that were given in place of these settings."""
    try:
        yield
    except ConfigError as error:
        setting = str(error).partition(":")[0]
        argument = PLUGIN_ARGUMENTS.get(setting, "") if setting in settings else ""
        if argument in setting:
            raise
        raise ConfigError(f"{error} (argument {argument})") from error.__cause__


def resolve_plugin(kind: PluginKind[T], setting: str, choice: object, settings: Settings) -> ResolvedPlugin[T]:
    """Raise ConfigError if the choice is invalid."""
    if isinstance(choice, str):
        return _resolve_named(kind, setting, choice, settings)
    if kind.factory.providedBy(choice):
        return _made(kind, setting, choice, repr(choice), "", settings)
    return _checked(kind, setting, choice, repr(choice), _name_of(choice))


def resolve_plugins(
    kind: PluginKind[T], setting: str, choices: object, settings: Settings
) -> tuple[ResolvedPlugin[T], ...]:
    """Resolve a list, or comma-separated names."""
    if isinstance(choices, str):
        choices = [name for part in choices.split(",") if (name := part.strip())]
    elif not isinstance(choices, Iterable):
        choices = (choices,)
    return tuple(resolve_plugin(kind, setting, choice, settings) for choice in choices)


def _resolve_named(kind: PluginKind[T], setting: str, text: str, settings: Settings) -> ResolvedPlugin[T]:
    name, colon, argument = text.partition(":")
    there = built_in(kind.factory, kind.interface)
    if name not in there:
        others = installed(kind.title, kind.factory, kind.interface)
        there = others.plugins
        if name not in there:
            why = others.unknown(name)
            undeclared = "" if name in others.ignored else not_declared(kind.title, name, kind.factory, kind.interface)
            raise _invalid_choice(setting, repr(text), f"{why}; {undeclared}" if undeclared else why)
    plugin = there[name]
    if kind.factory.providedBy(plugin):
        return _made(kind, setting, plugin, repr(text), argument, settings)
    if colon:
        raise _invalid_choice(setting, repr(text), f"{name} takes no argument")
    return _checked(kind, setting, plugin, repr(text), name)


def _made(
    kind: PluginKind[T], setting: str, factory: Any, said: str, argument: str, settings: Settings
) -> ResolvedPlugin[T]:
    try:
        plugin = factory.make(argument, MappingProxyType(dict(settings)))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        what = str(error) if isinstance(error, ValueError) else f"making it failed with {error!r}"
        raise _invalid_choice(setting, said, what) from error
    return _checked(kind, setting, plugin, said, _name_of(factory))


def _checked(kind: PluginKind[T], setting: str, plugin: Any, said: str, name: str) -> ResolvedPlugin[T]:
    what = why_unfit(kind.interface, plugin)
    if what is not None:
        raise _invalid_choice(setting, said, f"{what} ({kind.title}s provide {kind.interface.__name__})")
    return ResolvedPlugin(kind, name, plugin)


def _invalid_choice(setting: str, said: str, why: str) -> ConfigError:
    return ConfigError(f"{setting}: {said} is not accepted; {why}")


def _name_of(plugin: object) -> str:
    name: object = getattr(plugin, "name", None)
    return name if isinstance(name, str) and name else type(plugin).__qualname__
