"""Metrics of mirrors for Prometheus, at http://HOST:PORT/metrics of the mirror's process.

| metric                                     | labels                  |                                              |
|--------------------------------------------|-------------------------|----------------------------------------------|
| `pylogbroker_mirror_active`                | source, target          | 1 if this process copies, 0 if it stands by  |
| `pylogbroker_mirror_caught_up`             | source, target          | 1 if nothing is left to copy                 |
| `pylogbroker_mirror_records_total`         | source, target          | mirrored records                             |
| `pylogbroker_mirror_bytes_total`           | source, target          | their bytes, as they are compressed          |
| `pylogbroker_mirror_commits_total`         | source, target          | transactions                                 |
| `pylogbroker_mirror_lag_records`           | source, target, topic   | records that are not mirrored yet            |
| `pylogbroker_mirror_topic_stopped`         | source, target, topic   | 1 for a topic that is not mirrored           |
| `pylogbroker_mirror_lost_offsets_total`    | source, target, topic   | offsets that were deleted before             |
| `pylogbroker_mirror_groups`                | source, target          | groups whose offsets follow                  |
| `pylogbroker_mirror_group_offsets_total`   | source, target, to      | offsets committed in either cluster          |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol

from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import IListeningPort
from twisted.web.resource import NoResource, Resource
from twisted.web.server import Request, Site

from pylogbroker.errors import ConfigError
from pylogbroker.java.text import is_digits
from pylogbroker.mirror.group_sync import GroupSyncCounts
from pylogbroker.mirror.mirror import MirrorStatus

_PREFIX: Final = "pylogbroker_mirror_"
_CONTENT_TYPE: Final = b"text/plain; version=0.0.4; charset=utf-8"
_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_FAMILIES: Final = {
    "active": ("gauge", "Whether this process copies; else it stands by."),
    "caught_up": ("gauge", "Whether nothing is left to copy."),
    "records_total": ("counter", "Mirrored records."),
    "bytes_total": ("counter", "Bytes of mirrored records, as they are compressed."),
    "commits_total": ("counter", "Transactions in the target."),
    "lag_records": ("gauge", "Records of a topic that are not mirrored yet."),
    "topic_stopped": ("gauge", "1 for a topic that is not mirrored because of an error."),
    "lost_offsets_total": ("counter", "Offsets of a topic that the source deleted before they were mirrored."),
    "groups": ("gauge", "Groups whose offsets follow."),
    "group_offsets_total": ("counter", "Offsets of groups that were committed in the source or in the target."),
}


class MeasuredMirror(Protocol):
    @property
    def status(self) -> MirrorStatus: ...
    @property
    def group_counts(self) -> GroupSyncCounts: ...


def exposition(mirrors: Iterable[MeasuredMirror]) -> bytes:
    """Return the metrics in Prometheus' text format."""
    lines: dict[str, list[str]] = {name: [] for name in _FAMILIES}

    def add(name: str, value: int, **labels: str) -> None:
        text = ",".join(f'{label}="{content.translate(_ESCAPES)}"' for label, content in labels.items())
        lines[name].append(f"{_PREFIX}{name}{{{text}}} {value}\n")

    for mirror in mirrors:
        status, groups = mirror.status, mirror.group_counts
        labels = {"source": status.source, "target": status.target}
        add("active", int(status.is_active), **labels)
        add("caught_up", int(status.is_caught_up), **labels)
        add("records_total", status.counts.records, **labels)
        add("bytes_total", status.counts.bytes, **labels)
        add("commits_total", status.counts.commits, **labels)
        for name, topic_lag in status.lags.topics.items():
            add("lag_records", topic_lag.records, **labels, topic=name)
        for topic in status.stopped:
            add("topic_stopped", 1, **labels, topic=topic)
        for topic, offsets in status.lost.items():
            add("lost_offsets_total", offsets, **labels, topic=topic)
        add("groups", groups.groups, **labels)
        add("group_offsets_total", groups.to_target, **labels, to="target")
        add("group_offsets_total", groups.to_source, **labels, to="source")
    parts = [_head(name) + "".join(samples) for name, samples in lines.items() if samples]
    return "".join(parts).encode()


def listen(reactor: Any, address: str, mirrors: Callable[[], Sequence[MeasuredMirror]]) -> IListeningPort:
    """Serve the metrics at HOST:PORT; raise ConfigError if the address is wrong, or in use."""
    host, separator, port = address.rpartition(":")
    if not separator or not host or not is_digits(port) or int(port) > 65_535:
        raise ConfigError(f"metrics: {address!r} is not accepted; expected HOST:PORT such as 127.0.0.1:9465")
    root = Resource()  # type: ignore[no-untyped-call]
    root.putChild(b"metrics", _Metrics(mirrors))
    try:
        site = Site(root)  # type: ignore[no-untyped-call]
        listening: IListeningPort = reactor.listenTCP(int(port), site, interface=host.strip("[]"))
    except CannotListenError as error:
        raise ConfigError(f"metrics: {address} cannot be listened on: {error}") from error
    return listening


class _Metrics(Resource):
    isLeaf = True

    def __init__(self, mirrors: Callable[[], Sequence[MeasuredMirror]]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._mirrors = mirrors

    def render_GET(self, request: Request) -> bytes:
        if request.postpath:
            missing: bytes = NoResource().render(request)  # type: ignore[no-untyped-call]
            return missing
        request.setHeader(b"content-type", _CONTENT_TYPE)  # type: ignore[no-untyped-call]
        return exposition(self._mirrors())


def _head(name: str) -> str:
    kind, text = _FAMILIES[name]
    return f"# HELP {_PREFIX}{name} {text}\n# TYPE {_PREFIX}{name} {kind}\n"
