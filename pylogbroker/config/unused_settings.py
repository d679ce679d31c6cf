"""Settings of Kafka that this broker accepts, stores and shows, but does not use.

`kafka_settings.tsv` lists those of Kafka 3.9 and 4.x: name, type, default, mode, bounds. Values are validated like
Kafka's. Setting one is a warning.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pylogbroker.config.setting import Importance, Mode, Scope, Setting
from pylogbroker.config.value_kinds import ConfigType, ValueKind

FILE_NAME = "kafka_settings.tsv"

_NO_SASL = "of SASL, PLAIN, SCRAM and OAUTHBEARER are offered to clients"
_ONE_NODE = "the broker is the only one of its cluster"
_CLASSIC = "only the classic group protocol is offered"
_TIERED = "tiered storage is not offered"
_ONE_CORE = "one thread does all network work"

_REASONS: tuple[tuple[str, str], ...] = (
    ("zookeeper.*", "connections to ZooKeeper do not use it"),
    ("process.roles", "coordination is embedded in the broker"),
    ("controller.listener.names", "coordination is embedded in the broker; these listeners are not opened"),
    ("controller.*", "coordination is embedded in the broker"),
    ("metadata.*", "coordination is embedded in the broker"),
    ("broker.heartbeat.*", "coordination is embedded in the broker"),
    ("broker.session.*", "coordination is embedded in the broker"),
    ("initial.broker.*", "coordination is embedded in the broker"),
    ("num.network.threads", _ONE_CORE),
    ("queued.max.requests", "queued.max.request.bytes limits waiting requests"),
    ("*.purgatory.purge.interval.requests", "answered requests are removed at once"),
    ("socket.connection.setup.*", _ONE_NODE),
    ("ssl.protocol", "ssl.enabled.protocols has the versions"),
    ("ssl.allow.*", "a change of the names in a certificate is only logged"),
    ("ssl.*", "OpenSSL does the work of Java's classes"),
    ("sasl.oauthbearer.scope.claim.name", "scopes of signed tokens do not count"),
    ("sasl.oauthbearer.jwks.endpoint.retry.*", "keys are read again at the next interval, or for an unknown key"),
    ("sasl.*", _NO_SASL),
    ("security.providers", "OpenSSL does the work of Java's classes"),
    ("principal.builder.class", "classes written in Java cannot be loaded; ssl.principal.mapping.rules maps names"),
    ("password.encoder.*", "stored passwords are not encrypted"),
    ("listener.name.*", "only settings of TLS and SASL and the rate of connections can be set for one listener"),
    ("early.start.listeners", _ONE_NODE),
    ("control.plane.listener.name", _ONE_NODE),
    ("inter.broker.*", _ONE_NODE),
    ("replica.*", _ONE_NODE),
    ("num.replica.*", _ONE_NODE),
    ("replication.*", _ONE_NODE),
    ("request.timeout.ms", _ONE_NODE),
    ("controlled.shutdown.*", _ONE_NODE),
    ("auto.leader.rebalance.enable", _ONE_NODE),
    ("leader.imbalance.*", _ONE_NODE),
    ("unclean.leader.election.interval.ms", _ONE_NODE),
    ("eligible.leader.replicas.enable", _ONE_NODE),
    ("alter.log.dirs.*", "the throttle of moves between directories has no windows"),
    ("log.dir.failure.timeout.ms", _ONE_NODE),
    ("log.initial.task.delay.ms", "each periodic job on logs runs first after its own interval"),
    (
        "log.flush.start.offset.checkpoint.interval.ms",
        "log start offsets are written every log.flush.offset.checkpoint.interval.ms, with the recovery points",
    ),
    ("follower.fetch.*", _ONE_NODE),
    ("cordoned.log.dirs", "partitions are placed in all working log directories"),
    ("add.partitions.to.txn.retry.*", _ONE_NODE),
    ("internal.metadata.*", "coordination is embedded in the broker"),
    ("internal.segment.bytes", "segment.bytes has no minimum to override"),
    ("config.providers", "values are used as written"),
    ("max.decompressed.message.bytes", "the broker has a fixed limit for decompressed batches"),
    ("errors.deadletterqueue.*", _CLASSIC),
    ("share.fetch.*", _CLASSIC),
    ("log.cleaner.io.buffer.size", "the cleaner reads blocks of a fixed size"),
    ("remote.*", _TIERED),
    ("log.remote.*", _TIERED),
    ("transaction.two.phase.commit.enable", "two-phase commits are not offered"),
    ("group.consumer.*", _CLASSIC),
    ("group.coordinator.*", _CLASSIC),
    ("group.share.*", _CLASSIC),
    ("group.streams.*", _CLASSIC),
    ("share.coordinator.*", _CLASSIC),
    ("offsets.commit.required.acks", "a commit always waits for all in-sync replicas"),
    ("client.quota.*", "classes written in Java cannot be loaded"),
    ("*.policy.class.name", "policies written in Java cannot be loaded"),
    ("alter.config.policy.*", "policies written in Java cannot be loaded"),
    ("metric.reporters", "metrics reporters written in Java cannot be loaded"),
    ("metrics.*", "metrics reporters written in Java cannot be loaded"),
    ("kafka.metrics.*", "metrics reporters written in Java cannot be loaded"),
    ("auto.include.jmx.reporter", "there is no Java virtual machine"),
    ("telemetry.max.bytes", "client telemetry is not offered"),
    ("server.max.startup.time.ms", "the start has no time limit"),
    ("unstable.*", "no unstable features are offered"),
)


def _read() -> Iterator[Setting]:
    text = Path(__file__).with_name(FILE_NAME).read_text("utf-8")
    return (_setting(*line.split("\t")) for line in text.splitlines() if not line.startswith("#"))


def _setting(
    scope: str,
    name: str,
    type_name: str,
    default: str,
    importance: str,
    mode: str,
    least: str,
    most: str,
    internal: str,
) -> Setting:
    kind = ValueKind(ConfigType[type_name], low=_bound(least), high=_bound(most))
    reason = reason_without_effect(name) or ""
    return Setting(
        name=name,
        kind=kind,
        default=None if default == "null" else kind.parse(default),
        importance=Importance(importance.lower()),
        doc=f"Has no effect: {reason}.",
        scope=Scope(scope),
        mode=Mode(mode) if scope == Scope.BROKER else Mode.READ_ONLY,
        internal=internal == "internal",
        no_effect=reason,
    )


def _bound(text: str) -> float | None:
    return None if not text else float(text) if "." in text else int(text)


def reason_without_effect(name: str) -> str | None:
    """Return why Kafka's setting has no effect; None if unknown."""
    return next((reason for pattern, reason in _REASONS if _matches(name, pattern)), None)


def _matches(name: str, pattern: str) -> bool:
    """Like `fnmatch` for one `*` at an end, without 80 regular expressions to compile at each start."""
    if pattern.endswith("*"):
        return name.startswith(pattern[:-1])
    return name.endswith(pattern[1:]) if pattern.startswith("*") else name == pattern


UNUSED_SETTINGS: tuple[Setting, ...] = tuple(_read())
