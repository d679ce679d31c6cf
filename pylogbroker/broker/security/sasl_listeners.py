"""SASL of a broker's listeners, by name: mechanisms and users, from settings, the file `users`, and the tree."""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

import attrs
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.logger import Logger

from pylogbroker.broker.runtime.resources import PeriodicCall, Runtime
from pylogbroker.broker.security.file_state import FileState
from pylogbroker.broker.security.login_queue import LoginQueue
from pylogbroker.broker.security.logins import credentials_at_controllers, credentials_of_broker, login_of, read_file
from pylogbroker.broker.security.scram_store import ScramStore
from pylogbroker.broker.security.token_validators import TokenValidators, accepts_unsecured, check_tokens
from pylogbroker.config import BrokerConfig, Listener
from pylogbroker.config.mechanisms import OAUTHBEARER, PLAIN
from pylogbroker.errors import ConfigError
from pylogbroker.security.sasl import users_file
from pylogbroker.security.sasl.authentication import Authentication, Mechanism
from pylogbroker.security.sasl.oauthbearer import OAuthServer, TokenValidator
from pylogbroker.security.sasl.plain import PlainServer
from pylogbroker.security.sasl.scram import FindToken, ScramServer
from pylogbroker.security.sasl.users import Users

log = Logger()
T = TypeVar("T")

_USERS = "users"
_SECRETS = {PLAIN: "passwords", OAUTHBEARER: "tokens"}
"""Secrets that clients send in clear, by mechanism."""


@attrs.frozen(eq=False, repr=False)
class ListenerSasl:
    """Users of one listener by mechanism, as they were when they were read, and lifetimes of sessions in ms."""

    _users: Mapping[str, Users]
    lifetimes_ms: Mapping[str, int]

    @property
    def has_users(self) -> bool:
        return not all(users.is_empty for users in self._users.values())

    @property
    def has_passwords(self) -> bool:
        return bool(self._users)

    def check(self, name: str, password: str) -> bool:
        """Return whether a client could log in so. Takes milliseconds."""
        users = next(iter(self._users.values()), None)
        return users is not None and users.check(name, password)

    def authentication(
        self, tokens: TokenValidator | None, find_token: FindToken | None, identity: tuple[str, str] | None
    ) -> Authentication:
        mechanisms: dict[str, Callable[[], Mechanism]] = {
            name: partial(_server, name, users, find_token) for name, users in self._users.items()
        }
        if tokens is not None:
            mechanisms[OAUTHBEARER] = partial(OAuthServer, tokens)
        return Authentication(mechanisms, identity)


def _server(mechanism: str, users: Users, find_token: FindToken | None) -> Mechanism:
    return PlainServer(users) if mechanism == PLAIN else ScramServer(users, mechanism, find_token=find_token)


@attrs.frozen
class _Loaded:
    listeners: Mapping[str, ListenerSasl] = attrs.field(factory=dict)
    file: FileState | None = None
    names: frozenset[str] = frozenset()
    """Users in the file."""

    @property
    def is_outdated(self) -> bool:
        """True if the file of users has changed. Blocks."""
        return self.file is not None and self.file != FileState.of(self.file.path)


def check_sasl(config: BrokerConfig) -> None:
    """Read the users of all listeners; raise ConfigError if a start would fail. Blocks."""
    with_sasl = _with_sasl(config)
    read_file.cache_clear()
    if config.in_cluster:
        credentials_of_broker(config)
    if config.in_kraft:
        credentials_at_controllers(config)
    _load(config)
    if with_sasl and (path := config.users):
        _warn_of_readers(path)
    for listener in with_sasl:
        if OAUTHBEARER in _mechanisms(config, listener):
            check_tokens(config, listener)
            if accepts_unsecured(config, listener):
                log.warn(
                    "listener {name} accepts tokens that nobody has signed: everybody can connect as any user; use "
                    "sasl.oauthbearer.jwks.endpoint.url, and no sasl.server.callback.handler.class",
                    name=listener.name,
                )
        in_clear = [mechanism for mechanism in _mechanisms(config, listener) if mechanism in _SECRETS]
        if in_clear and not listener.security.has_tls:
            log.warn(
                "listener {name} takes {secrets} without encryption: use SASL_SSL, or leave {mechanisms} out of "
                "sasl.enabled.mechanisms",
                name=listener.name,
                secrets=" and ".join(_SECRETS[mechanism] for mechanism in in_clear),
                mechanisms=" and ".join(in_clear),
            )


def _warn_of_readers(path: str) -> None:
    """Warn if every user of this machine can read the passwords. Blocks."""
    with suppress(OSError):
        if os.stat(path).st_mode & stat.S_IROTH:
            log.warn("users: {path} can be read by every user of this machine: run chmod o-rwx {path}", path=path)


def _with_sasl(config: BrokerConfig) -> list[Listener]:
    return [listener for listener in config.listeners if listener.security.has_sasl]


def _mechanisms(config: BrokerConfig, listener: Listener) -> tuple[str, ...]:
    return config.of_listener(listener).sasl_enabled_mechanisms


def _load(config: BrokerConfig, store: ScramStore | None = None) -> _Loaded:
    """Read settings and file; raise ConfigError. Blocks.

    With a store, which is open, each listener must have a user, unless other brokers may add one.
    """
    with_sasl = _with_sasl(config)
    if not with_sasl:
        return _Loaded()
    path = config.users
    state = FileState.of(path) if path else None  # before it is read: a later change is noticed
    content = _read(path) if path else users_file.FileContent()
    by_listener = {}
    for listener in with_sasl:
        mechanisms = _mechanisms(config, listener)
        by_listener[listener.name] = ListenerSasl(
            {name: _users(config, listener, name, content, store) for name in mechanisms if name != OAUTHBEARER},
            {name: config.of_listener(listener, name).connections_max_reauth_ms for name in mechanisms},
        )
        if store is not None and OAUTHBEARER not in mechanisms and not by_listener[listener.name].has_users:
            _handle_no_user(config, listener)
    return _Loaded(by_listener, state, content.names)


def _handle_no_user(config: BrokerConfig, listener: Listener) -> None:
    """Warn in a cluster, where users may be added while the broker runs; else raise ConfigError. Both say how to."""
    path = config.users
    command = _command(["--file", path] if path else ["--file", "PATH"] if config.in_cluster else _files(config))
    if not config.in_cluster:
        lacking = f"users: listener {listener.name} has no user who could connect"
        raise ConfigError(f"{lacking}; add one, and start again: {command}")
    log.warn(
        "listener {name} has no user who could connect: add one to the cluster, by `pylogbroker user add` at another "
        "listener or kafka-configs.sh, or to the file of the setting users: {command}",
        name=listener.name,
        command=command,
    )


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
    named_login = login_of(config, listener, mechanism)
    if named_login is not None and mechanism == PLAIN:
        passwords = passwords | named_login[1].accounts
    if store is None:
        return Users(passwords, content.keys, b"")
    return Users(passwords, content.keys, store.secret, store.in_force)


@attrs.define(eq=False, repr=False)
class SaslListeners:
    """The present users of each listener; new connections get them.

    The file is read again when it has changed. If that fails, the former users stay.
    """

    _config: BrokerConfig
    _runtime: Runtime
    _store: ScramStore
    _find_token: FindToken | None = None
    _loaded: _Loaded = attrs.field(factory=_Loaded, repr=False, init=False)
    _file_check: PeriodicCall | None = attrs.field(default=None, init=False)
    _tokens: TokenValidators = attrs.field(init=False)
    _logins: LoginQueue = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._logins = LoginQueue(self._runtime.in_login_thread)
        self._tokens = TokenValidators(self._runtime)

    async def open(self) -> None:
        """Read the users, and follow their changes from now on; raise ConfigError or CoordinationError."""
        if not _with_sasl(self._config):
            return
        await self._store.open()
        self._loaded = await self._runtime.in_thread(_load, self._config, self._store)
        for listener in _with_sasl(self._config):
            if OAUTHBEARER in _mechanisms(self._config, listener):
                await self._tokens.open(self._config, listener)
        interval = self._config.users_check_interval_ms
        if interval and self._loaded.file is not None:
            self._file_check = PeriodicCall(self._runtime.clock, self._check_file)
            self._file_check.start(interval / 1000, now=False)

    def is_local(self, name: str) -> bool:
        """Return whether a user is in the file, so that the one in the tree does not count."""
        return name in self._loaded.names

    def stop(self) -> None:
        self._store.close()
        self._tokens.stop()
        if self._file_check is not None and self._file_check.running:
            self._file_check.stop()

    def authentication(self, listener: str, identity: tuple[str, str] | None = None) -> Authentication:
        """Return the authentication of a connection, with a mechanism and a user if it authenticates again."""
        tokens = self._tokens.by_listener.get(listener)
        return self._loaded.listeners[listener].authentication(tokens, self._find_token, identity)

    def session_lifetime_ms(self, listener: str, mechanism: str, expires_ms: int | None = None) -> int:
        """Return the lifetime of a session that begins, which ends with the client's proof; 0: for ever."""
        longest = self._loaded.listeners[listener].lifetimes_ms[mechanism]
        if expires_ms is None:
            return longest
        left = max(1, expires_ms - self._runtime.now_ms())
        return min(left, longest) if longest else left

    def run(self, host: str, function: Callable[[bytes], T], token: bytes) -> Deferred[T]:
        """Call a mechanism in a thread, for a client at an address: hashing takes milliseconds."""
        return self._logins.run(host, function, token)

    @property
    def has_passwords(self) -> bool:
        """True if a listener has users with passwords."""
        return any(listener.has_passwords for listener in self._loaded.listeners.values())

    def check_password(self, host: str, name: str, password: str) -> Deferred[bool]:
        """Return whether a client at an address could log in so at any listener; the result may be TooManyLogins."""
        listeners = tuple(self._loaded.listeners.values())
        return self._logins.run(host, lambda: any(listener.check(name, password) for listener in listeners))

    def _check_file(self) -> Deferred[None]:
        return ensureDeferred(self._load_if_changed())

    async def _load_if_changed(self) -> None:
        try:
            if not await self._runtime.in_thread(lambda: self._loaded.is_outdated):
                return
            self._loaded = await self._runtime.in_thread(_load, self._config, self._store)
        except ConfigError as error:
            if self._runtime.may_log(_USERS):
                log.error("the former users stay: {error}", error=error)
        except Exception:  # else the file would never be looked at again
            if self._runtime.may_log(_USERS):
                log.failure("the former users stay: the file could not be read")
        else:
            log.info("read the file of users again")
