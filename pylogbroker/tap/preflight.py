"""Preflight checks: find reasons not to start before anything is created, opened or locked.

The checks only read.  Unreadable directories pass: a failed one of several does not prevent the start.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import socket
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import pairwise

import attrs

from pylogbroker.config import BrokerConfig, Endpoint, Listener, properties
from pylogbroker.config.http_settings import HTTP
from pylogbroker.errors import StartupError
from pylogbroker.java.text import is_digits
from pylogbroker.legacy07 import storage as legacy07_storage
from pylogbroker.storage import names
from pylogbroker.tap.brokers.data import brokers_below
from pylogbroker.tree import tree_file

_KAFKA_PARTITION = re.compile(r".+-[0-9]+")
_KAFKA_SEGMENT = ".log"
COORDINATION = "it is the coordination directory: metadata.log.dir, by default the first of log.dirs"
_KAFKA_DATA = "holds data of Apache Kafka, which pylogbroker does not read: choose another directory"
_KRAFT_DATA = (
    "is formatted for a cluster of KRaft controllers: set process.roles=broker and "
    "controller.quorum.bootstrap.servers, or choose another directory"
)
_REBUILD = "rebuild it from the logs with `pylogbroker coordination rebuild`, or "


@attrs.frozen
class DirectoryContents:
    """Contents of a log directory, visible without opening logs."""

    path: str
    subdirectories: tuple[str, ...]
    meta: dict[str, str]  # of meta.properties

    def partitions(self) -> Iterator[str]:
        ours = (name for name in self.subdirectories if names.parse_partition_directory(name) is not None)
        return (name for name in ours if _holds(f"{self.path}/{name}", names.RECORDS) and not self._of_kafka07(name))

    def _of_kafka07(self, name: str) -> bool:
        path = f"{self.path}/{name}"
        marks = (names.PARTITION_METADATA, names.MESSAGE_FORMAT)
        return not any(os.path.exists(f"{path}/{mark}") for mark in marks) and legacy07_storage.holds_kafka07(path)

    @property
    def of_kraft(self) -> bool:
        """True if the directory is formatted for a cluster of KRaft controllers."""
        return "node.id" in self.meta or self.meta.get("version") == "1"

    @property
    def of_kafka(self) -> bool:
        """True if there are segments of Apache Kafka, besides a member's copy of the metadata log."""
        theirs = (name for name in self.subdirectories if _KAFKA_PARTITION.fullmatch(name))
        theirs = (name for name in theirs if not self._is_metadata_copy(name))
        return any(_holds(f"{self.path}/{name}", _KAFKA_SEGMENT) for name in theirs)

    def _is_metadata_copy(self, name: str) -> bool:
        return name == names.METADATA_DIRECTORY and os.path.exists(f"{self.path}/{name}/{names.CLUSTER_ID}")

    @property
    def in_use_by_cluster(self) -> bool:
        """True if the directory has belonged to a coordination tree."""
        return "cluster.id" in self.meta or any(self.partitions())


def check(config: BrokerConfig) -> None:
    """Raise StartupError if the broker could not start, or only with wrong data."""
    contents = inspect_directories(config)
    if not config.in_cluster:
        _check_number_of_brokers(config.log_dirs)
        _check_tree(os.path.abspath(config.metadata_dir), contents)


def check_data_of_several(metadata: str, paths: Iterable[str]) -> None:
    """Raise StartupError if several brokers, with these log directories, have no tree for their data.

    Their supervisor checks this before it opens the tree, which creates the file. The brokers check all else.
    """
    contents = _contents_of(os.path.abspath(path) for path in paths)
    _check_unformatted(contents)
    _check_tree(os.path.abspath(metadata), contents)


def inspect_directories(config: BrokerConfig) -> list[DirectoryContents]:
    """Check all but the coordination tree; return the contents of the log directories."""
    paths = [os.path.abspath(path) for path in config.log_dirs]
    metadata = os.path.abspath(config.metadata_dir)
    for path in (*paths, metadata):
        _check_encoding(path)
    if not config.in_cluster:
        _check_coordination_directory(metadata, alone=paths == [metadata])
    contents = _contents_of(paths)
    for path in paths:
        _check_lock(path, names.LOCK)
    if not config.in_cluster:
        _check_lock(metadata, tree_file.LOCK_NAME)
    if not config.in_kraft:
        _check_unformatted(contents)
        _check_meta(contents, config)
    return contents


def warnings(config: BrokerConfig) -> Iterator[str]:
    factor = config.default_replication_factor
    if factor > 1 and not config.in_cluster:
        yield (
            f"default.replication.factor is {factor}, but there is one broker: auto-created topics, and topics that "
            "are created without a replication factor of their own, fail; set it to 1"
        )


def cure(config: BrokerConfig, broker_id: int) -> str:
    generated = config.broker_id_generation_enable
    if generated and broker_id > config.reserved_broker_max_id:
        return "remove broker.id from the settings; the broker finds its id in its data"
    return f"set broker.id={broker_id}"


def is_of_kraft(path: str) -> bool:
    """Return whether a directory is formatted for a cluster of KRaft controllers."""
    contents = _contents(path)
    return contents is not None and contents.of_kraft


def _contents_of(paths: Iterable[str]) -> list[DirectoryContents]:
    """Return the contents of readable directories; raise StartupError if one has data of Apache Kafka."""
    contents = [directory for directory in map(_contents, paths) if directory is not None]
    for directory in contents:
        if directory.of_kafka:
            raise StartupError(f"{directory.path} {_KAFKA_DATA}")
    return contents


def _contents(path: str) -> DirectoryContents | None:
    try:
        with os.scandir(path) as listing:
            subdirectories = tuple(entry.name for entry in listing if entry.is_dir())
    except OSError:
        return None
    return DirectoryContents(path, subdirectories, _meta(f"{path}/{names.META}"))


def _meta(path: str) -> dict[str, str]:
    try:
        with open(path, "rb") as file:
            meta = properties.loads(file.read().decode("latin-1"))
    except OSError:
        return {}
    except ValueError as error:
        raise StartupError(f"{path} is damaged: {error}") from None
    if "version" not in meta or not _whole(meta.get("broker.id", "0")):
        raise StartupError(f"{path} is damaged: it has no version, or no valid broker.id; remove it")
    return meta


def _whole(text: str) -> bool:
    return is_digits(text)


def _holds(directory: str, suffix: str) -> bool:
    try:
        files = map(names.parse_file, os.listdir(directory))
        return any(parsed is not None and parsed[1] == suffix for parsed in files)
    except OSError:
        return False


def _check_encoding(path: str) -> None:
    try:
        path.encode()
    except UnicodeEncodeError:
        raise StartupError(f"{path!r} is not in UTF-8, in which clients see log directories: rename it") from None


def _check_coordination_directory(path: str, *, alone: bool) -> None:
    """Raise StartupError unless the directory exists or can be created, and is writable."""
    existing = path
    while not os.path.lexists(existing):
        existing = os.path.dirname(existing)
    trouble = _trouble_with(existing)
    if trouble:
        remedy = "choose another directory with --data-dir, or with the setting log.dirs"
        raise StartupError(f"{path} cannot be used: {os.strerror(trouble)}; {remedy if alone else COORDINATION}")


def _trouble_with(directory: str) -> int:
    """Return the errno of creating a file there, or 0."""
    if not os.path.isdir(directory):
        return errno.ENOTDIR
    if os.access(directory, os.W_OK | os.X_OK):
        return 0
    return errno.EROFS if os.statvfs(directory).f_flag & os.ST_RDONLY else errno.EACCES


def check_unused(paths: Iterable[str]) -> None:
    """Raise StartupError if a running broker has locked one of the log directories."""
    for path in paths:
        _check_lock(path, names.LOCK)


def _check_lock(directory: str, name: str) -> None:
    try:
        fd = os.open(f"{directory}/{name}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        raise StartupError(f"{directory} is in use by another broker: stop it, or choose another directory") from None
    finally:
        os.close(fd)


def _check_unformatted(contents: Iterable[DirectoryContents]) -> None:
    for directory in contents:
        if directory.of_kraft:
            raise StartupError(f"{directory.path} {_KRAFT_DATA}")


def _check_meta(contents: Iterable[DirectoryContents], config: BrokerConfig) -> None:
    """Raise StartupError unless all data is of one cluster and this broker."""
    marked = [directory for directory in contents if "broker.id" in directory.meta]
    broker_id = config.broker_id
    for directory in marked:
        theirs = int(directory.meta["broker.id"])
        if broker_id >= 0 and theirs != broker_id:
            whose = f"{directory.path} holds the data of broker {theirs}, this is broker {broker_id}"
            raise StartupError(f"{whose}: {cure(config, theirs)}")
    for key in ("broker.id", "cluster.id"):
        _check_agreement(key, [directory for directory in marked if key in directory.meta])


def _check_agreement(key: str, contents: list[DirectoryContents]) -> None:
    for one, other in pairwise(contents):
        if one.meta[key] != other.meta[key]:
            raise StartupError(
                f"{one.path} and {other.path} do not belong together: {key} is {one.meta[key]} in one and "
                f"{other.meta[key]} in the other; leave one of them out of log.dirs"
            )


def _check_number_of_brokers(directories: Iterable[str]) -> None:
    count = 1 + max(map(len, map(brokers_below, directories)))
    if count > 1:
        raise StartupError(f"the data is of {count} brokers: start with --brokers {count}")


def _check_tree(metadata: str, contents: Sequence[DirectoryContents]) -> None:
    if _has_tree(metadata):
        return
    for directory in contents:
        if _has_tree(directory.path):
            raise StartupError(
                f"the coordination file {tree_file.FILE_NAME}, which lists the topics, is in {directory.path} "
                f"and not in {metadata}: set metadata.log.dir={directory.path}"
            )
    of_several = any(brokers_below(directory.path) for directory in contents)
    for directory in contents:
        if directory.in_use_by_cluster:
            raise StartupError(
                f"{directory.path} holds data, but {metadata}/{tree_file.FILE_NAME}, which lists the topics, is "
                "missing or empty: restore it, or set metadata.log.dir to the directory that has it, or "
                f"{'' if of_several else _REBUILD}move the data away to start without topics"
            )


def _has_tree(directory: str) -> bool:
    try:
        return os.path.getsize(f"{directory}/{tree_file.FILE_NAME}") > 0
    except OSError:
        return False


def check_ports(listeners: Iterable[Listener | Endpoint]) -> None:
    """Raise StartupError if a listener's port is taken, or two listeners share one."""
    with ExitStack() as probes:
        bound: list[tuple[int, str, int]] = []
        for listener in listeners:
            family = socket.AF_INET6 if ":" in listener.host else socket.AF_INET
            probe = probes.enter_context(socket.socket(family, socket.SOCK_STREAM))
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((listener.host, listener.port))
            except OSError as error:
                raise StartupError(_cannot_listen(listener, error)) from error
            address = (family, *probe.getsockname()[:2])
            if any(_overlap(address, other) for other in bound):
                raise StartupError(_cannot_listen(listener, OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))))
            bound.append(address)


def _overlap(one: tuple[int, str, int], other: tuple[int, str, int]) -> bool:
    hosts = {one[1], other[1]}
    return one[0] == other[0] and one[2] == other[2] and (len(hosts) == 1 or bool(hosts & {"0.0.0.0", "::"}))


def _cannot_listen(listener: Listener | Endpoint, error: OSError) -> str:
    endpoint = Endpoint(listener.name, listener.host, listener.port)
    is_host = isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL
    other = "a host of this machine" if is_host else "another port"
    where = "--listener NAME://host:port, or with the setting listeners"
    remedy = f"choose {other} with {'http.listeners' if listener.name == HTTP else where}"
    return f"cannot listen on {endpoint}: {error.strerror or error}; {remedy}"
