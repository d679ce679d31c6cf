"""Users of SASL listeners: in a file, or in the coordination tree of a stopped broker."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Protocol

import attrs

from pylogbroker.config import BrokerConfig
from pylogbroker.errors import ConfigError
from pylogbroker.interfaces import Create, ITree, SetData
from pylogbroker.metadata import zk_paths, zk_schema
from pylogbroker.metadata.entity_names import desanitized
from pylogbroker.offline.stopped_broker import finish, stopped_broker
from pylogbroker.security.sasl import users_file
from pylogbroker.security.sasl.stored_credentials import encode
from pylogbroker.security.sasl.users import HASHES, ScramKeys

_PASSWORD: Final = "password"
_SECRET_MODE: Final = 0o600


class UserList(Protocol):
    def names(self) -> dict[str, list[str]]:
        """Return what there is for each user: mechanisms, or `password`."""

    def add(self, name: str, keys: Sequence[ScramKeys]) -> None:
        """Set the keys of a user; what there was before is gone."""

    def delete(self, name: str) -> None: ...


@attrs.frozen
class UsersFile:
    """File of users. A change replaces it as a whole; a new one is for its owner only."""

    _path: Path

    def names(self) -> dict[str, list[str]]:
        content = users_file.parse(self._read(), f"users: {self._path}")
        mechanisms: dict[str, list[str]] = {name: [_PASSWORD] for name in content.passwords}
        for mechanism, name in content.keys:
            mechanisms.setdefault(name, []).append(mechanism)
        return mechanisms

    def add(self, name: str, keys: Sequence[ScramKeys]) -> None:
        text = self._read() if self._path.exists() else ""
        self._write(users_file.with_user(text, name, keys))

    def delete(self, name: str) -> None:
        self._write(users_file.without_user(self._read(), name))

    def _read(self) -> str:
        return self._path.read_text("utf-8")

    def _write(self, text: str) -> None:
        users_file.parse(text, f"users: {self._path}")
        path = Path(os.path.realpath(self._path))  # a link stays one
        new = path.with_name(f"{path.name}.new")
        with suppress(FileNotFoundError):
            new.unlink()
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _SECRET_MODE), "w", encoding="utf-8") as file:
            if path.exists():
                _copy_owner(path, file.fileno())
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)


def _copy_owner(path: Path, file: int) -> None:
    before = path.stat()
    if (before.st_uid, before.st_gid) != (os.geteuid(), os.getegid()):
        os.fchown(file, before.st_uid, before.st_gid)
    os.fchmod(file, before.st_mode & 0o777)


@attrs.frozen
class TreeUsers:
    """Users in the tree of a broker that does not run. Other settings of a user stay."""

    _config: BrokerConfig

    def names(self) -> dict[str, list[str]]:
        with self._tree() as tree:
            nodes = finish(tree.children_with_data(zk_paths.CONFIG_USERS))
        configs = {desanitized(name): zk_schema.decode_config(node.data) for name, node in nodes.items()}
        mechanisms = {
            name: [mechanism for mechanism in HASHES if mechanism in config] for name, config in configs.items()
        }
        return {name: own for name, own in mechanisms.items() if own}

    def add(self, name: str, keys: Sequence[ScramKeys]) -> None:
        new = {scram_keys.mechanism: encode(scram_keys) for scram_keys in keys}
        if not name or not name.isprintable() or name in (".", ".."):
            raise ConfigError(f"user: {name!r} is not accepted; expected a name that can be printed")
        self._alter(name, lambda others: {**others, **new})

    def delete(self, name: str) -> None:
        self._alter(name, lambda others: others)

    def _alter(self, name: str, change: Callable[[Mapping[str, str]], Mapping[str, str]]) -> None:
        path = zk_paths.user_config(name)
        with self._tree() as tree:
            [node] = finish(tree.get_many([path]))
            before = {} if node is None else zk_schema.decode_config(node.data)
            after = change({setting: text for setting, text in before.items() if setting not in HASHES})
            data = zk_schema.encode_config(after)
            finish(tree.commit([Create(path, data) if node is None else SetData(path, data)]))

    @contextmanager
    def _tree(self) -> Iterator[ITree]:
        with stopped_broker(self._config) as broker:
            yield broker.tree
