"""Words of kcat, rpk and Kafka's tools that this command does not take, with its own ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_CONSUME: Final = "consume TOPIC"
_PRODUCE: Final = "produce TOPIC"
_ALTER: Final = "topic alter TOPIC --set NAME=VALUE"

#: By the command that gets the word: "" is `pylogbroker` itself.
_WORDS: Final[Mapping[str, Mapping[str, str]]] = {
    "": {
        "-C": _CONSUME,
        "-G": "consume TOPIC --group GROUP",
        "-L": "topic list",
        "-P": _PRODUCE,
        "-Q": "consume TOPIC --since TIME",
        "cat": _CONSUME,
        "container": "demo",
        "create": "topic create TOPIC",
        "describe": "topic describe TOPIC",
        "help": "--help",
        "info": "cluster info",
        "lag": "group lag",
        "list": "topic list",
        "ls": "topic list",
        "metadata": "cluster info",
        "redpanda": "broker start",
        "registry": "consume TOPIC --schema-registry URL",
        "security": "acl list",
        "server": "broker start",
        "start": "broker start",
        "tail": "consume TOPIC --offset end",
        "version": "--version",
    },
    "acl": {"user": "user list"},
    "cluster": {
        "config": "config describe",
        "logdirs": "cluster log-dirs",
        "metadata": "cluster info",
        "partitions": "reassign list",
        "quotas": "quota describe",
        "status": "cluster health",
        "txn": "txn list",
    },
    "consume": {
        "--from-beginning": _CONSUME,
        "--max-messages": "consume TOPIC --count COUNT",
        "--num": "consume TOPIC --count COUNT",
        "--partition": "consume TOPIC:PARTITION",
        "--partitions": "consume TOPIC:PARTITION",
        "--use-schema-registry": "consume TOPIC --schema-registry URL",
        "-C": _CONSUME,
        "-G": "consume TOPIC --group GROUP",
        "-J": "consume TOPIC --format json",
        "-K": r"consume TOPIC --format '%k:%s\n'",
        "-c": "consume TOPIC --count COUNT",
        "-p": "consume TOPIC:PARTITION",
        "-q": _CONSUME,
        "-t": _CONSUME,
        "-u": _CONSUME,
    },
    "group": {
        "ls": "group list",
        "offset-delete": "group delete-offsets GROUP",
        "rm": "group delete GROUP",
        "seek": "group reset GROUP",
    },
    "produce": {"-P": _PRODUCE, "-t": _PRODUCE},
    "profile": {"print": "profile show", "set": "profile create NAME"},
    "quota": {"list": "quota describe"},
    "topic": {
        "--create": "topic create TOPIC",
        "--delete": "topic delete TOPIC",
        "--describe": "topic describe TOPIC",
        "--list": "topic list",
        "alter-config": _ALTER,
        "consume": _CONSUME,
        "info": "topic describe TOPIC",
        "ls": "topic list",
        "produce": _PRODUCE,
        "rm": "topic delete TOPIC",
        "set": _ALTER,
        "trim-prefix": "topic trim TOPIC",
    },
    "topic alter": {"--add-config": _ALTER, "--config": _ALTER, "-c": _ALTER},
    "topic create": {"--topic-config": "topic create TOPIC --config NAME=VALUE"},
    "user": {"create": "user add NAME"},
}
_ADDRESS_OPTIONS: Final = ("--broker-list", "--brokers", "--server", "--zookeeper")


def equivalent(path: str, word: str) -> str | None:
    """Return the words after `pylogbroker` that do what `word` does elsewhere, for the command at a path."""
    if words := _WORDS.get(path, {}).get(word):
        return words
    if path and word in _ADDRESS_OPTIONS:
        return f"{path} --bootstrap-server HOST:PORT"
    return f"{path} TOPIC" if path.startswith(("topic ", "consume", "produce")) and word == "--topic" else None
