"""Settings of the brokers that `--brokers N` runs, from those of the command line.

| setting                       | first broker               | others                                   |
|-------------------------------|----------------------------|------------------------------------------|
| broker.id                     | as in its data, else 0     | the smallest free numbers                |
| log.dirs                      | as given                   | `brokers/<id>` below each of them        |
| listeners, also of HTTP       | as given                   | each port higher by one, or of its range |
| http.listeners, not given     | the default: the web UI    | none                                     |
| internal topics' replicas     | 1, unless given            | the same                                 |
| time-outs, and pauses         | short, unless given        | the same                                 |
| logger.format                 | text: the supervisor reads their logs, and writes its own as given    |
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from pylogbroker.config import BrokerConfig
from pylogbroker.config.listeners import PORT_MAX, TREE
from pylogbroker.errors import ConfigError, StartupError
from pylogbroker.java.text import is_digits
from pylogbroker.system import usable_cores
from pylogbroker.tap.brokers.data import BROKER_DIRECTORIES

BROKERS_MAX: Final = 1000
_ADDRESS: Final = re.compile(r"(.+):([0-9]+)(?:-([0-9]+))?")
_URLS: Final = ("http.listeners", "schema.registry.listeners", "schema.registry.advertised.url")
_LISTENER_SETTINGS: Final = ("listeners", "advertised.listeners", *_URLS)
_ONE_MACHINE: Final = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "transaction.state.log.min.isr": "1",
    "schema.registry.topic.replication.factor": "1",
    "zookeeper.session.timeout.ms": "6000",
    "controlled.shutdown.retry.backoff.ms": "500",
    "api.versions.release": "4.4",
}


@attrs.frozen
class PlannedBroker:
    """One of the brokers; `overrides` replace settings of the command line."""

    id: int
    log_directories: Sequence[str]
    overrides: dict[str, str]


@attrs.frozen
class BrokersPlan:
    brokers: Sequence[PlannedBroker]
    tree_listeners: Sequence[tuple[str, int]]  # addresses at which others reach the tree
    tree_directory: str


def parse_count(text: str) -> int:
    """Return the number of brokers; `auto` is one for each core that the process may use."""
    if text == "auto":
        return usable_cores()
    if not is_digits(text) or not 1 <= int(text) <= BROKERS_MAX:
        raise ConfigError(f"brokers: {text!r} is not accepted; expected auto, or a number from 1 to {BROKERS_MAX}")
    return int(text)


def plan(settings: dict[str, str], count: int, ids: Sequence[int] = ()) -> BrokersPlan:
    """Return what to run; `ids` are those of the data, that of the first broker first. Raise ConfigError."""
    if "zookeeper.connect" in settings:
        raise ConfigError("zookeeper.connect: --brokers starts a cluster of its own; leave one of them out")
    tree_listeners, listeners = _listeners(settings, count)
    config = BrokerConfig(settings | {name: texts[0] for name, texts in listeners.items()})
    chosen = _ids(config, count, ids)
    defaults = {name: text for name, text in _ONE_MACHINE.items() if name not in settings}
    brokers = []
    for index, broker_id in enumerate(chosen):
        overrides = defaults | {name: texts[index] for name, texts in listeners.items()}
        directories = _directories(config, broker_id, index)
        overrides["log.dirs"] = ",".join(directories)
        overrides["logger.format"] = "text"
        if index and "http.listeners" not in settings:
            overrides["http.listeners"] = ""
        if broker_id <= config.reserved_broker_max_id:  # otherwise it was generated: the data has it
            overrides["broker.id"] = str(broker_id)
        BrokerConfig(settings | overrides)
        brokers.append(PlannedBroker(broker_id, directories, overrides))
    return BrokersPlan(brokers, tree_listeners, os.path.abspath(config.metadata_dir))


def check_shrinking(ids: Sequence[int], count: int) -> None:
    """Raise StartupError if there is data of more brokers than there will be."""
    if len(ids) > count:
        more = ", ".join(map(str, ids[count:]))
        raise StartupError(
            f"the data is of {len(ids)} brokers: start with --brokers {len(ids)}. To have fewer, move all partitions "
            f"away from broker {more} with kafka-reassign-partitions, stop, and remove their directories below "
            f"{BROKER_DIRECTORIES}/"
        )


def _ids(config: BrokerConfig, count: int, ids: Sequence[int]) -> list[int]:
    first = ids[0] if ids else max(config.broker_id, 0)
    chosen = [first, *ids[1:]]
    unused = (number for number in itertools.count() if number not in chosen)
    return chosen + list(itertools.islice(unused, max(0, count - len(chosen))))


def _directories(config: BrokerConfig, broker_id: int, index: int) -> Sequence[str]:
    below = os.path.join(BROKER_DIRECTORIES, str(broker_id))
    return [os.path.join(directory, below) for directory in config.log_dirs] if index else config.log_dirs


def _listeners(settings: Mapping[str, str], count: int) -> tuple[list[tuple[str, int]], dict[str, list[str]]]:
    tree_listeners: list[tuple[str, int]] = []
    per_broker: dict[str, list[str]] = {}
    for name in _LISTENER_SETTINGS:
        text = settings.get(name) or (BrokerConfig({}).text(name) if name == "listeners" else "")
        items = [item.strip() for item in text.split(",") if item.strip()]
        if name == "listeners":
            tree_listeners = [_tree_address(item) for item in items if _is_of_tree(item)]
        lists = [_for_each(name, item, count) for item in items if not _is_of_tree(item)]
        if lists:
            per_broker[name] = [",".join(own) for own in zip(*lists, strict=True)]
            _check_distinct(name, [item for row in lists for item in row])
    return tree_listeners, per_broker


def _is_of_tree(item: str) -> bool:
    return item.partition("://")[0].upper() == TREE


def _tree_address(item: str) -> tuple[str, int]:
    match = _ADDRESS.fullmatch(item.partition("://")[2])
    if match is None or match[3] or int(match[2]) > PORT_MAX:
        raise ConfigError(f"listeners: {item!r} is not accepted; expected {TREE}://host:port")
    return match[1].strip("[]"), int(match[2])


def _for_each(name: str, item: str, count: int) -> list[str]:
    match = _ADDRESS.fullmatch(item)
    if match is None:
        raise ConfigError(f"{name}: {item!r} is not accepted; expected {_expected(name)}, or a range of ports")
    first = int(match[2])
    last = int(match[3]) if match[3] else first + count - 1 if first else 0
    if first and last - first + 1 < count:
        raise ConfigError(f"{name}: {item} has {max(0, last - first + 1)} ports for {count} brokers")
    if last > PORT_MAX:
        raise ConfigError(f"{name}: {item} for {count} brokers goes beyond port {PORT_MAX}")
    return [f"{match[1]}:{first + index if first else 0}" for index in range(count)]


def _expected(name: str) -> str:
    return "http://host:port" if name in _URLS else "NAME://host:port"


def _check_distinct(name: str, items: Sequence[str]) -> None:
    addresses = [item.partition("://")[2] for item in items if not item.endswith(":0")]
    twice = sorted({address for address in addresses if addresses.count(address) > 1})
    if twice and name != "advertised.listeners":
        raise ConfigError(f"{name}: two brokers would listen on {twice[0]}; leave more ports between them")
