"""SASL of a broker's listeners, by name: mechanisms and users, from settings, the file `users`, and the tree."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import attrs
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.logger import Logger

from pylogbroker.broker.runtime import PeriodicCall, Runtime
from pylogbroker.broker.security.file_state import FileState
from pylogbroker.broker.security.logins import credentials_of_broker, login_of
from pylogbroker.broker.security.scram_store import ScramStore
from pylogbroker.config import BrokerConfig, Listener
from pylogbroker.errors import ConfigError
from pylogbroker.security.sasl import users_file
from pylogbroker.security.sasl.authentication import Authentication, Mechanism
from pylogbroker.security.sasl.plain import PlainServer
from pylogbroker.security.sasl.scram import ScramServer
from pylogbroker.security.sasl.users import PLAIN, Users

log = Logger()

_USERS = "users"


@attrs.frozen(eq=False)
class ListenerSasl:
    """Users of one listener by mechanism, as they were when they were read."""

    _users: Mapping[str, Users]

    def authentication(self) -> Authentication:
        """Return the authentication of a new connection."""
        return Authentication({name: partial(_server, name, users) for name, users in self._users.items()})


def _server(mechanism: str, users: Users) -> Mechanism:
    return PlainServer(users) if mechanism == PLAIN else ScramServer(users, mechanism)


@attrs.frozen
class _Loaded:
    listeners: Mapping[str, ListenerSasl] = attrs.field(factory=dict)
    file: FileState | None = None
    names: frozenset[str] = frozenset()
    """Users in the file."""

    @property
    def is_outdated(self) -> bool:
        """Whether the file of users has changed. Blocks."""
        return self.file is not None and self.file != FileState.of(self.file.path)


def check_sasl(config: BrokerConfig) -> None:
    """Read the users of all listeners; raise ConfigError if a start would fail. Blocks."""
    with_sasl = _with_sasl(config)
    if config.in_cluster:
        credentials_of_broker(config)
    _load(config)
    for listener in with_sasl:
        if PLAIN in _mechanisms(config, listener) and not listener.security.has_tls:
            log.warn(
                "listener {name} takes passwords without encryption: use SASL_SSL, or leave PLAIN out of "
                "sasl.enabled.mechanisms",
                name=listener.name,
            )


def _with_sasl(config: BrokerConfig) -> list[Listener]:
    return [listener for listener in config.listeners if listener.security.has_sasl]


def _mechanisms(config: BrokerConfig, listener: Listener) -> tuple[str, ...]:
    return config.of_listener(listener).texts("sasl.enabled.mechanisms")


def _load(config: BrokerConfig, store: ScramStore | None = None) -> _Loaded:
    """Read settings and file; raise ConfigError. Blocks.

    With a store, which is open, each listener must have a user.
    """
    with_sasl = _with_sasl(config)
    if not with_sasl:
        return _Loaded()
    path = config.optional_text(_USERS)
    state = FileState.of(path) if path else None  # before it is read: a later change is noticed
    content = _read(path) if path else users_file.FileContent()
    found = {}
    for listener in with_sasl:
        of_mechanisms = {name: _users(config, listener, name, content, store) for name in _mechanisms(config, listener)}
        if store is not None and all(users.is_empty for users in of_mechanisms.values()):
            raise ConfigError(_no_user(config, listener))
        found[listener.name] = ListenerSasl(of_mechanisms)
    return _Loaded(found, state, content.names)


def _no_user(config: BrokerConfig, listener: Listener) -> str:
    """Return the error, with a command that helps."""
    lacking = f"users: listener {listener.name} has no user who could connect;"
    path = config.optional_text(_USERS)
    if path or not config.in_cluster:
        return f"{lacking} add one, and start again: {_command(['--file', path] if path else _files(config))}"
    return f"{lacking} set users to the path of a file, and run: {_command(['--file', 'PATH'])}"


def _files(config: BrokerConfig) -> list[str]:
    """Return the options that name the files of a broker."""
    first, *more = config.log_dirs
    options = ["--data-dir", first]
    if more:
        options += ["-o", f"log.dirs={','.join(config.log_dirs)}"]
    if config.metadata_dir != first:
        options += ["-o", f"metadata.log.dir={config.metadata_dir}"]
    return options


def _command(options: Sequence[str]) -> str:
    return shlex.join(["pylogbroker", "user", "add", *options, "NAME"])


def _read(path: str) -> users_file.FileContent:
    try:
        text = Path(path).read_text("utf-8")
    except FileNotFoundError as error:
        raise ConfigError(
            f"users: {path}: {error.strerror}; add a user, and start again: {_command(['--file', path])}"
        ) from None
    except OSError as error:
        raise ConfigError(f"users: {path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"users: {path}: is not UTF-8") from None
    return users_file.parse(text, f"users: {path}")


def _users(
    config: BrokerConfig,
    listener: Listener,
    mechanism: str,
    content: users_file.FileContent,
    store: ScramStore | None,
) -> Users:
    """Return the users of file and tree, and for PLAIN those of Java's logins, too."""
    passwords = content.passwords
    found = login_of(config, listener, mechanism)
    if found is not None and mechanism == PLAIN:
        passwords = passwords | found[1].accounts
    if store is None:
        return Users(passwords, content.keys, b"")
    return Users(passwords, content.keys, store.secret, store.in_force)


@attrs.define(eq=False)
class SaslListeners:
    """The present users of each listener; new connections get them.

    The file is read again when it has changed. If that fails, the former users stay.
    """

    _config: BrokerConfig
    _runtime: Runtime
    _store: ScramStore
    _loaded: _Loaded = attrs.field(factory=_Loaded, repr=False, init=False)
    _file_check: PeriodicCall | None = attrs.field(default=None, init=False)

    async def open(self) -> None:
        """Read the users, and follow their changes from now on; raise ConfigError or CoordinationError."""
        if not _with_sasl(self._config):
            return
        await self._store.open()
        self._loaded = await self._runtime.in_thread(_load, self._config, self._store)
        interval = self._config.integer("users.check.interval.ms")
        if interval and self._loaded.file is not None:
            self._file_check = PeriodicCall(self._runtime.clock, self._check_file)
            self._file_check.start(interval / 1000, now=False)

    def is_local(self, name: str) -> bool:
        """Return whether a user is in the file, so that the one in the tree does not count."""
        return name in self._loaded.names

    def stop(self) -> None:
        self._store.close()
        if self._file_check is not None and self._file_check.running:
            self._file_check.stop()

    def authentication(self, listener: str) -> Authentication:
        """Return the authentication of a new connection on a listener with SASL."""
        return self._loaded.listeners[listener].authentication()

    def run(self, function: Callable[[bytes], bytes], token: bytes) -> Deferred[bytes]:
        """Call a mechanism in a thread: hashing takes milliseconds."""
        return self._runtime.in_thread(function, token)

    def _check_file(self) -> Deferred[None]:
        return ensureDeferred(self._load_if_changed())

    async def _load_if_changed(self) -> None:
        if not await self._runtime.in_thread(lambda: self._loaded.is_outdated):
            return
        try:
            self._loaded = await self._runtime.in_thread(_load, self._config, self._store)
        except ConfigError as error:
            if self._runtime.may_log(_USERS):
                log.error("the former users stay: {error}", error=error)
        else:
            log.info("read the file of users again")
