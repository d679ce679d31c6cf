"""Settings of Kafka that this broker accepts, stores and shows, but does not use.

`kafka_settings.tsv` lists those of Kafka 3.9 and 4.x: name, type, default, mode, bounds. Values are validated like
Kafka's. Setting one is a warning.
"""

from __future__ import annotations

from collections.abc import Iterator
from pkgutil import get_data

from pylogbroker.config.setting import Importance, Mode, Scope, Setting
from pylogbroker.config.value_kinds import ConfigType, ValueKind

FILE_NAME = "kafka_settings.tsv"

_NO_SASL = "of SASL, PLAIN, SCRAM and OAUTHBEARER are offered to clients"
_NO_KRAFT = "the controllers of KRaft are Apache Kafka's"
_STREAMS_BUILT_IN = "the assignor of streams groups is built in, and topology descriptions are not kept"
_BUILT_IN = "assignor and persister of share groups are built in"
_ONE_LOOP = "the reactor's thread does the work of groups"
_JAVA_STORAGE = "classes written in Java cannot be loaded; remote.log.storage names the remote storage"
_ARCHIVE = "the archive works without it"
_ONE_CORE = "one thread does all network work"

_REASONS: tuple[tuple[str, str], ...] = (
    ("zookeeper.*", "connections to ZooKeeper do not use it"),
    ("controller.*", _NO_KRAFT),
    ("metadata.*", _NO_KRAFT),
    ("broker.session.*", _NO_KRAFT),
    ("num.network.threads", _ONE_CORE),
    ("queued.max.requests", "queued.max.request.bytes limits waiting requests"),
    ("*.purgatory.purge.interval.requests", "answered requests are removed at once"),
    ("socket.connection.setup.*", "the setup of a connection to another broker has a fixed time limit"),
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
    ("early.start.listeners", "all listeners open together"),
    ("control.plane.listener.name", "the controller uses inter.broker.listener.name"),
    ("replica.socket.receive.buffer.bytes", "the operating system sizes buffers of connections to other brokers"),
    ("num.replica.alter.log.dirs.threads", "one log is moved at a time"),
    ("replication.quota.*", "the throttle of replication has no windows"),
    ("request.timeout.ms", "replica.socket.timeout.ms and controller.socket.timeout.ms limit requests between brokers"),
    ("unclean.leader.election.interval.ms", "unclean elections do not wait for an interval"),
    ("eligible.leader.replicas.enable", "eligible leader replicas are not offered"),
    ("alter.log.dirs.*", "the throttle of moves between directories has no windows"),
    ("log.dir.failure.timeout.ms", "a broker reports failed log directories without a time limit"),
    ("log.initial.task.delay.ms", "each periodic job on logs runs first after its own interval"),
    (
        "log.flush.start.offset.checkpoint.interval.ms",
        "log start offsets are written every log.flush.offset.checkpoint.interval.ms, with the recovery points",
    ),
    ("cordoned.log.dirs", "partitions are placed in all working log directories"),
    ("internal.metadata.*", _NO_KRAFT),
    ("internal.segment.bytes", "segment.bytes has no minimum to override"),
    ("config.providers", "values are used as written"),
    ("max.decompressed.message.bytes", "the broker has a fixed limit for decompressed batches"),
    ("log.cleaner.io.buffer.size", "the cleaner reads blocks of a fixed size"),
    ("remote.log.storage.manager.*", _JAVA_STORAGE),
    ("remote.log.metadata.*", "the remote storage itself has the metadata of its segments"),
    ("remote.log.index.*", "remote.log.cache.bytes bounds indexes, too"),
    ("remote.log.manager.task.*", "there is one pause for all partitions"),
    ("remote.log.manager.*", "remote.log.manager.copier.thread.pool.size has the threads for all work on archives"),
    ("remote.*", _ARCHIVE),
    ("log.remote.*", _ARCHIVE),
    ("transaction.two.phase.commit.enable", "two-phase commits are not offered"),
    ("group.consumer.*", "long assignments are computed in a thread, and their interval has no bounds"),
    ("group.coordinator.*", _ONE_LOOP),
    ("group.share.*", _BUILT_IN),
    ("group.streams.*", _STREAMS_BUILT_IN),
    ("share.coordinator.*", _ONE_LOOP),
    ("offsets.commit.required.acks", "a commit always waits for all in-sync replicas"),
    ("client.quota.*", "classes written in Java cannot be loaded"),
    ("*.policy.class.name", "policies written in Java cannot be loaded"),
    ("alter.config.policy.*", "policies written in Java cannot be loaded"),
    ("metric.reporters", "metrics reporters written in Java cannot be loaded"),
    ("metrics.*", "metrics reporters written in Java cannot be loaded"),
    ("kafka.metrics.*", "metrics reporters written in Java cannot be loaded"),
    ("auto.include.jmx.reporter", "there is no Java virtual machine"),
    ("server.max.startup.time.ms", "the start has no time limit"),
    ("unstable.*", "no unstable features are offered"),
)


def _read() -> Iterator[Setting]:
    text = (get_data(__name__, FILE_NAME) or b"").decode()
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
