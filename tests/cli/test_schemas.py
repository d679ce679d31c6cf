"""The members of each verb's JSON are those that docs/command-line.md lists, in the same order."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import click
import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, Producer

from pylogbroker.cli import main
from pylogbroker.client import AcknowledgeType
from pylogbroker.client.admin.cluster_info import (
    ClusterInfoAdmin,
    FeatureLevels,
    QuorumDescription,
    QuorumMember,
    QuorumRole,
)
from pylogbroker.client.admin.replicas import Reassignment, ReplicaAdmin
from pylogbroker.client.admin.routing import deferred
from pylogbroker.client.admin.tokens import TokenAdmin
from pylogbroker.client.sync import ShareConsumer
from pylogbroker.mirror_records.formats import MirrorHeartbeat
from pylogbroker.mirror_records.status import MirroredTopicReport, StatusReport
from pylogbroker.security.delegation.tokens import DelegationToken, IssuedToken
from pylogbroker.wire.metadata_records import TopicRecord
from tests.kraft.logs import batch
from tests.peers.processes import free_ports
from tests.support.broker_process import BrokerProcess
from tests.support.waiting import wait_until

PAGE = Path(__file__).parents[2] / "docs" / "command-line.md"
#: Names in their order, each with those of the objects in it, if the page lists them.
Schema = dict[str, Any]
NOTHING: Schema = {}
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "log.index.interval.bytes": "100",
}
TOKEN = IssuedToken(DelegationToken("t", "User:a", "User:a", (), 0, 1, 1), b"hmac")


def documented() -> dict[str, list[Schema]]:
    """Return the schemas of each verb; several of `dump`, whose files differ."""
    section = PAGE.read_text("utf-8").partition("## Verbs and their JSON\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.+?) \| (.+) \|$", section, re.MULTILINE)
    return {verb: list(_schemas(verb, members)) for verbs, members in rows for verb in _verbs(verbs)}


def _verbs(text: str) -> Iterator[str]:
    """Yield the verbs of a cell such as "`acl list`, `create`"."""
    if text.startswith("`dump`"):
        yield text.replace("`", "")
        return
    noun = ""
    for words in re.findall(r"`([a-z -]+)`", text):
        noun, _, verb = words.rpartition(" ") if " " in words else (noun, "", words)
        yield f"{noun} {verb}".strip()


def _schemas(verb: str, text: str) -> Iterator[Schema]:
    parts = text.split("; ")
    if verb.startswith("dump") and "array of" not in text:  # files differ
        yield from map(_schema, parts)
    else:
        yield {name: found for part in parts for name, found in _schema(part).items()}


def _schema(text: str) -> Schema:
    """Return the members that a text names; "array of" begins an object, which ends with the text."""
    found: Schema = {}
    inner = found
    for name, begins in re.findall(r"`([a-z_]+)`(: array of)?", re.sub(r"\(.*?\)", "", text)):
        inner[name] = {} if begins else None
        if begins:
            inner = inner[name]
    return found


def check(schema: Schema, value: Any) -> None:
    """Compare the members of each object in a value; arrays that the page describes must not be empty."""
    objects = value if isinstance(value, list) else [value]
    assert objects
    for each in objects:
        assert list(each) == list(schema)
        for name, inner in schema.items():
            if inner is not None:
                check(inner, each[name])


def leaf_commands(group: click.Group, *words: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from leaf_commands(command, *words, name)
        else:
            yield " ".join((*words, name)), command


def test_how_the_page_is_read() -> None:
    assert list(_verbs("`acl list`, `create`, `delete`")) == ["acl list", "acl create", "acl delete"]
    assert list(_schemas("x", "`a`, `b`: array of `c` (`d` or so), `e`: array of `f`; `g`: an object")) == [
        {"a": None, "b": {"c": None, "e": {"f": None}}, "g": None}
    ]
    assert list(_schemas("dump of it", "`a`; with `--b`: `c`")) == [{"a": None}, {"c": None}]


def test_verbs_with_a_format() -> None:
    """The page has every verb whose output has forms, and says of no other that it has members."""
    found = {
        name
        for name, command in leaf_commands(main)  # type: ignore[arg-type]
        if any(each.name == "output" and isinstance(each.type, click.Choice) for each in command.params)
    }
    listed = {verb.partition(" of ")[0] for verb, schemas in documented().items() if schemas != [NOTHING]}
    assert found == listed


class _Printed:
    """Values that verbs printed, by their names in the page."""

    def __init__(self, bootstrap: str) -> None:
        self.values: dict[str, list[Any]] = {}
        self._bootstrap = bootstrap

    def run(self, verb: str, *arguments: object, given: str = "", code: int = 0) -> None:
        options = ["-b", self._bootstrap, *map(str, arguments), "--format", "json"]
        self.add(verb, [*verb.split(), *options], given, code)

    def add(self, name: str, arguments: list[str], given: str = "", code: int = 0) -> None:
        found = CliRunner().invoke(main, arguments, input=given)
        assert found.exit_code == code, found.output
        self.values.setdefault(name, []).append(json.loads(found.stdout))


def test_members(
    new_broker: Callable[[dict[str, str]], BrokerProcess],
    topic: str,
    group: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    [port] = free_ports(1)
    broker = new_broker(SETTINGS | {"schema.registry.listeners": f"http://127.0.0.1:{port}"})
    broker.start()
    printed = _Printed(broker.bootstrap)
    _topics_and_groups(printed, broker, topic, group)
    _share_groups(printed, broker, topic, f"{group}-shared")
    _mirrors(printed, broker)
    _security(printed)
    _registry(printed, tmp_path)
    with monkeypatch.context() as patch:
        _fakes(printed, patch)
        patch.setenv("PYLOGBROKER_CONFIG", str(tmp_path / "config.toml"))
        _profiles(printed)
    assert broker.stop() == 0
    _files(printed, broker, topic)
    schemas = {verb: found for verb, found in documented().items() if found != [NOTHING]}
    assert printed.values.keys() == schemas.keys()
    for verb, expected in schemas.items():
        assert len(printed.values[verb]) == len(expected), verb
        for schema, value in zip(expected, printed.values[verb], strict=True):
            check(schema, value)


def _topics_and_groups(printed: _Printed, broker: BrokerProcess, topic: str, group: str) -> None:
    run = printed.run
    run("topic create", topic, "-c", "retention.ms=-1")
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": group, "linger.ms": 0})
    producer.init_transactions(120)
    for end in (producer.abort_transaction, producer.commit_transaction):
        producer.begin_transaction()
        for _ in range(5):
            producer.produce(topic, b"x" * 100, partition=0, headers=[("a", b"b")])
            assert producer.flush(120) == 0
        end(120)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    wait_until(lambda: consumer.poll(0.1) is not None)
    run("group describe", group)
    consumer.commit(asynchronous=False)
    run("group lag", group)
    consumer.close()
    run("group list")
    run("group reset", group, "--to-latest", "--dry-run")
    run("topic list")
    run("topic describe", topic)
    run("topic trim", topic, "--all", given="n\n", code=1)
    run("config describe", "topic", topic)
    run("txn list")
    run("txn describe", group)
    run("txn producers", topic)
    run("reassign start", topic, "--to", "1", given="n\n", code=1)
    for verb in ("info", "describe", "log-dirs", "health"):
        run(f"cluster {verb}")
    run("broker describe")
    printed.add("top", ["top", "--once", "--interval", "0.1", "-b", broker.bootstrap, "--format", "json"])


def _share_groups(printed: _Printed, broker: BrokerProcess, topic: str, group: str) -> None:
    """Let a member reject a record, so that all verbs have something to print."""
    letters = f"dlq.{group}"
    options = ["-b", broker.bootstrap]
    for command in (
        ["topic", "create", letters, "-c", "errors.deadletterqueue.group.enable=true"],
        ["config", "alter", "group", group, "--set", f"errors.deadletterqueue.topic.name={letters}"],
        ["config", "alter", "group", group, "--set", "share.auto.offset.reset=earliest"],
    ):
        assert CliRunner().invoke(main, [*command, *options]).exit_code == 0, command
    with ShareConsumer(broker.bootstrap, group=group) as consumer:
        consumer.subscribe([topic])
        wait_until(lambda: consumer.assignment)
        printed.run("share describe", group)
        [message, *_] = consumer.poll(1)
        consumer.acknowledge(message, AcknowledgeType.REJECT)
        consumer.commit()
    printed.run("share list")
    printed.run("share lag", group)
    printed.run("share reset", group, "--to-latest", "--dry-run")
    shown = ["share", "letters", group, "--format", "json", *options]
    wait_until(lambda: CliRunner().invoke(main, shown).stdout != "[]\n")
    printed.run("share letters", group)


def _mirrors(printed: _Printed, broker: BrokerProcess) -> None:
    """Write the heartbeat of a mirror, which then is shown."""
    report = StatusReport(7, 100, 2000, 5.5, 60.0, (MirroredTopicReport("a", "b", 3, 7),), {"c": "why"})
    beat = MirrorHeartbeat("east", "here", 1_700_000_000_000)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce("heartbeats", beat.value(), beat.key(), headers=[report.header()])
    assert producer.flush(120) == 0
    printed.run("mirror status")


def _security(printed: _Printed) -> None:
    printed.run("acl create", "allow", "User:alice", "read", "--resource", "topic", "--name", "x")
    printed.run("acl list")
    printed.run("acl describe", "topic", "x")
    printed.run("acl delete", "--principal", "User:alice", "--yes")
    options = ["-b", printed._bootstrap]
    assert CliRunner().invoke(main, ["user", "add", "alice", *options], input="pencil\n").exit_code == 0
    printed.run("user list")
    quota = ["quota", "alter", "--user", "alice", "--set", "producer_byte_rate=1e6", *options]
    assert CliRunner().invoke(main, quota).exit_code == 0
    shown = ["quota", "describe", "--format", "json", *options]
    wait_until(lambda: CliRunner().invoke(main, shown).stdout != "[]\n")
    printed.run("quota describe")
    printed.run("user describe", "alice")


def _registry(printed: _Printed, directory: Path) -> None:
    file = directory / "string.avsc"
    file.write_text('"string"')
    printed.run("schema register", "s", file)
    for verb, *arguments in (("list",), ("versions", "s"), ("get", "s"), ("config",)):
        printed.run(f"schema {verb}", *arguments)


def _fakes(printed: _Printed, patch: pytest.MonkeyPatch) -> None:
    """Print what this broker has none of: moves, features, KRaft's controllers, and tokens without SASL."""

    async def moves(_: ReplicaAdmin) -> dict[tuple[str, int], Reassignment]:
        return {("t", 0): Reassignment((1, 2), (2,), ())}

    async def features(_: ClusterInfoAdmin) -> dict[str, FeatureLevels]:
        return {"metadata.version": FeatureLevels(1, 21, 20)}

    async def quorum(_: ClusterInfoAdmin) -> QuorumDescription:
        return QuorumDescription(3000, 1, 17, (QuorumMember(3000, QuorumRole.LEADER, "localhost:9093", 17, 0, 1, 1),))

    async def created(*_: Any) -> IssuedToken:
        return TOKEN

    async def described(*_: Any) -> list[IssuedToken]:
        return [TOKEN]

    patch.setattr(ReplicaAdmin, "reassignments", deferred(moves))
    patch.setattr(ClusterInfoAdmin, "features", deferred(features))
    patch.setattr(ClusterInfoAdmin, "quorum", deferred(quorum))
    patch.setattr(TokenAdmin, "create", deferred(created))
    patch.setattr(TokenAdmin, "describe", deferred(described))
    for verb in ("reassign list", "cluster features", "cluster quorum", "token create", "token list"):
        printed.run(verb)


def _profiles(printed: _Printed) -> None:
    assert CliRunner().invoke(main, ["profile", "create", "local", "-b", "127.0.0.1:9092"]).exit_code == 0
    for verb in ("list", "show"):
        printed.add(f"profile {verb}", ["profile", verb, "--format", "json"])


def _files(printed: _Printed, broker: BrokerProcess, topic: str) -> None:
    log = broker.partition_dir(topic, 0)

    def dump(kind: str, path: Path, *options: str) -> None:
        printed.add(f"dump of {kind}", ["dump", str(path), *options, "--format", "json"])

    [segment] = log.glob("*.kafka")
    dump("a segment", segment)
    dump("a segment", segment, "--records")
    for suffix in (".index", ".timeindex", ".txnindex"):
        dump("an index", segment.with_suffix(suffix))
    [snapshot] = log.glob("*.snapshot")
    dump("a producer snapshot", snapshot)
    dump("a checkpoint", broker.data_dir / "recovery-point-offset-checkpoint")
    epochs = log / "leader-epoch-checkpoint"
    epochs.write_text("0\n1\n0 0\n")
    dump("a checkpoint", epochs)
    metadata = broker.data_dir.parent / "__cluster_metadata-0"
    metadata.mkdir()
    (metadata / "00000000000000000000.log").write_bytes(batch(0, 1, [TopicRecord("orders", UUID(int=5))]))
    dump("KRaft's metadata", metadata / "00000000000000000000.log", "--records")
    (metadata / "quorum-state").write_text('{"leaderId":1,"leaderEpoch":3,"votedId":-1,"data_version":1}')
    dump("KRaft's metadata", metadata / "quorum-state")
    segment.write_bytes(segment.read_bytes()[:-5])
    damaged = ["verify", "--data-dir", str(broker.data_dir), "--format", "json"]
    printed.add("verify", damaged, code=10)
