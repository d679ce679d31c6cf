"""What can be seen to stand in the way of a start before anything is made, opened or held.

The directories are only looked at. What is refused here leaves them as they were: a directory that another broker uses,
that holds Apache Kafka's data or another broker's, data whose coordination tree is somewhere else or gone.

A directory that cannot be read is not judged here: one of several may fail without keeping the broker from starting.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
from collections.abc import Iterable, Iterator
from itertools import pairwise

import attrs
import javaproperties

from pylogbroker.config import BrokerConfig
from pylogbroker.coordination import embedded
from pylogbroker.errors import StartupError
from pylogbroker.storage import names
from pylogbroker.storage.kafka07 import holds_kafka07

_KAFKA_PARTITION = re.compile(r".+-\d+")
_KAFKA_SEGMENT = ".log"
COORDINATION = "it is the coordination's directory: metadata.log.dir, by default the first of log.dirs"
_KAFKA_DATA = "holds Apache Kafka's data, which is not read: choose another directory"


@attrs.frozen
class Glance:
    """What a directory of the data shows from outside."""

    path: str
    subdirectories: tuple[str, ...]
    meta: dict[str, str]  # of meta.properties; empty without it

    def partitions(self) -> Iterator[str]:
        """The directories of partitions that hold something."""
        ours = (name for name in self.subdirectories if names.parse_partition_directory(name) is not None)
        return (name for name in ours if _holds(f"{self.path}/{name}", names.ENTRIES) and not self._of_kafka07(name))

    def _of_kafka07(self, name: str) -> bool:
        path = f"{self.path}/{name}"
        marks = (names.PARTITION_METADATA, names.MESSAGE_FORMAT)
        return not any(os.path.exists(f"{path}/{mark}") for mark in marks) and holds_kafka07(path)

    @property
    def of_kafka(self) -> bool:
        """Whether Apache Kafka wrote it."""
        if "node.id" in self.meta or self.meta.get("version") == "1":
            return True
        theirs = (name for name in self.subdirectories if _KAFKA_PARTITION.fullmatch(name))
        return any(_holds(f"{self.path}/{name}", _KAFKA_SEGMENT) for name in theirs)

    @property
    def in_use_by_cluster(self) -> bool:
        """Whether a coordination tree knew of it."""
        return "cluster.id" in self.meta or any(self.partitions())


def look(config: BrokerConfig) -> None:
    """StartupError if the broker could not start, or only with other data than it was started for."""
    _check_tree(os.path.abspath(config.metadata_dir), look_at_directories(config))


def look_at_directories(config: BrokerConfig) -> list[Glance]:
    """Check all that `look` does but the coordination tree; return what the log directories show."""
    paths = [os.path.abspath(path) for path in config.log_dirs]
    metadata = os.path.abspath(config.metadata_dir)
    for path in (*paths, metadata):
        _check_encoding(path)
    _check_coordination_directory(metadata, alone=paths == [metadata])
    glances = [glance for glance in map(_glance, paths) if glance is not None]
    for glance in glances:
        if glance.of_kafka:
            raise StartupError(f"{glance.path} {_KAFKA_DATA}")
    for path in paths:
        _check_lock(path, names.LOCK)
    _check_lock(metadata, embedded.LOCK_NAME)
    _check_meta(glances, config)
    return glances


def warnings(config: BrokerConfig) -> Iterator[str]:
    """What a broker that is the only one will not be able to do."""
    factor = config.integer("default.replication.factor")
    if factor > 1:
        yield (
            f"default.replication.factor is {factor}, but there is one broker: topics that are created without a "
            "number of replicas of their own, or by being used, are refused; set it to 1"
        )


def cure(config: BrokerConfig, broker_id: int) -> str:
    """What to do for the broker to be the one of that number."""
    generated = config.boolean("broker.id.generation.enable")
    if generated and broker_id > config.integer("reserved.broker.max.id"):
        return "leave broker.id out, the number is remembered"
    return f"set broker.id={broker_id}"


def _glance(path: str) -> Glance | None:
    """A directory from outside; None if there is none, or none that can be read."""
    try:
        with os.scandir(path) as listing:
            subdirectories = tuple(entry.name for entry in listing if entry.is_dir())
    except OSError:
        return None
    return Glance(path, subdirectories, _meta(f"{path}/{names.META}"))


def _meta(path: str) -> dict[str, str]:
    try:
        with open(path, "rb") as file:
            meta = dict(javaproperties.load(file))
    except OSError:
        return {}
    except ValueError as error:
        raise StartupError(f"{path} is damaged: {error}") from None
    if "version" not in meta or not _whole(meta.get("broker.id", "0")):
        raise StartupError(f"{path} is damaged: it names no version or no number of a broker; remove it")
    return meta


def _whole(text: str) -> bool:
    return text.isascii() and text.isdecimal()


def _holds(directory: str, suffix: str) -> bool:
    """Whether a file of a segment lies in a directory."""
    try:
        found = map(names.parse_file, os.listdir(directory))
        return any(parsed is not None and parsed[1] == suffix for parsed in found)
    except OSError:
        return False


def _check_encoding(path: str) -> None:
    try:
        path.encode()
    except UnicodeEncodeError:
        raise StartupError(f"{path!r} is not in UTF-8, as clients are told directories: rename it") from None


def _check_coordination_directory(path: str, *, alone: bool) -> None:
    """The coordination's directory must be there, or possible to make."""
    existing = path
    while not os.path.lexists(existing):
        existing = os.path.dirname(existing)
    trouble = _trouble_with(existing)
    if trouble:
        what = f"{path} cannot be used: {os.strerror(trouble)}"
        raise StartupError(what if alone else f"{what}; {COORDINATION}")


def _trouble_with(directory: str) -> int:
    """Why nothing can be made in a directory: an errno, 0 if something can."""
    if not os.path.isdir(directory):
        return errno.ENOTDIR
    if os.access(directory, os.W_OK | os.X_OK):
        return 0
    return errno.EROFS if os.statvfs(directory).f_flag & os.ST_RDONLY else errno.EACCES


def _check_lock(directory: str, name: str) -> None:
    try:
        fd = os.open(f"{directory}/{name}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        raise StartupError(f"{directory} is in use by another broker") from None
    finally:
        os.close(fd)


def _check_meta(glances: Iterable[Glance], config: BrokerConfig) -> None:
    """All of the data must be of one broker, the one that is started, and of one cluster."""
    marked = [glance for glance in glances if "broker.id" in glance.meta]
    broker_id = config.integer("broker.id")
    for glance in marked:
        theirs = int(glance.meta["broker.id"])
        if broker_id >= 0 and theirs != broker_id:
            whose = f"{glance.path} holds the data of broker {theirs}, this is broker {broker_id}"
            raise StartupError(f"{whose}: {cure(config, theirs)}")
    for key in ("broker.id", "cluster.id"):
        _check_agreement(key, [glance for glance in marked if key in glance.meta])


def _check_agreement(key: str, glances: list[Glance]) -> None:
    for one, other in pairwise(glances):
        if one.meta[key] != other.meta[key]:
            raise StartupError(
                f"{one.path} and {other.path} do not belong together: {key} is {one.meta[key]} in one and "
                f"{other.meta[key]} in the other; leave one of them out of log.dirs"
            )


def _check_tree(metadata: str, glances: Iterable[Glance]) -> None:
    """Where there is data there must be the coordination tree that tells which topics it is of."""
    if _has_tree(metadata):
        return
    for glance in glances:
        if _has_tree(glance.path):
            raise StartupError(
                f"the coordination's file {embedded.FILE_NAME}, with the topics, lies in {glance.path} "
                f"and not in {metadata}: set metadata.log.dir={glance.path}"
            )
    for glance in glances:
        if glance.in_use_by_cluster:
            raise StartupError(
                f"{glance.path} holds data, but {metadata}/{embedded.FILE_NAME}, with the topics, is missing or "
                "empty: restore it, or set metadata.log.dir to the directory that it lies in, or make it again from "
                "the logs by `pylogbroker coordination rebuild`, or move the data away to begin without topics"
            )


def _has_tree(directory: str) -> bool:
    try:
        return os.path.getsize(f"{directory}/{embedded.FILE_NAME}") > 0
    except OSError:
        return False
