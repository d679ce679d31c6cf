"""Consequences of a changed setting for a topic, before it is changed: in bytes where that can be computed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import attrs

from pylogbroker.config import TopicConfig
from pylogbroker.formatting import counted
from pylogbroker.metadata.image import TopicImage
from pylogbroker.storage.log.retention import expired_segments
from pylogbroker.web.formats import count_text, duration_text, size_text
from pylogbroker.web.visitors import Visitor

_RETENTION: Final = ("cleanup.policy", "delete.policies", "retention.bytes", "retention.ms")
_SEGMENTS_MAX: Final = 20_000


@attrs.frozen
class Removal:
    """Segments that the next check of retention deletes here, and their bytes."""

    segments: int
    bytes: int


async def consequences(visitor: Visitor, topic: TopicImage, name: str, text: str | None) -> list[str]:
    """Return sentences about a new value, the default for None; raise ConfigError for one that is not accepted."""
    services = visitor.services
    settings = services.metadata.topic_settings(topic.name)
    changed = {key: value for key, value in settings.items() if key != name}
    before = services.config.topic(settings)
    after = services.config.topic(changed if text is None else {**changed, name: text})
    if before[name] == after[name]:
        return ["This is the value now."]
    sentences = [*_about(topic, before, after, name)]
    if name in _RETENTION:
        sentences += await _about_retention(visitor, topic, before, after)
    return sentences


def _about(topic: TopicImage, before: TopicConfig, after: TopicConfig, name: str) -> Iterator[str]:
    if name == "min.insync.replicas":
        yield from _about_in_sync(topic, after)
    elif name == "cleanup.policy":
        if after.compacts and not before.compacts:
            yield "Of each key, the newest record stays. Records without a key are rejected from then on."
        if before.deletes and not after.deletes:
            yield "Nothing is deleted by age or size any more."
    elif name == "segment.bytes":
        yield f"A new segment begins at {size_text(after.segment_bytes)}. Segments that are there stay as they are."
    elif name == "max.message.bytes" and after.max_message_bytes < before.max_message_bytes:
        yield f"Batches above {size_text(after.max_message_bytes)} are rejected. Records that are there stay."


def _about_in_sync(topic: TopicImage, after: TopicConfig) -> Iterator[str]:
    states, needed = topic.partitions.values(), after.min_insync_replicas
    short = sum(len(state.isr) < needed for state in states)
    if needed > topic.replication_factor:
        yield f"The topic has {counted(topic.replication_factor, 'replica')}: no write with acks=all would be accepted."
    elif short:
        yield f"Writes with acks=all would be rejected in {short} of {len(states)} partitions, now and at once."
    else:
        spare = topic.replication_factor - needed
        yield f"Writes with acks=all go on while at most {spare} of {topic.replication_factor} replicas are missing."


async def _about_retention(visitor: Visitor, topic: TopicImage, before: TopicConfig, after: TopicConfig) -> list[str]:
    now, then = await _removal(visitor, topic, before), await _removal(visitor, topic, after)
    if now is None or then is None:
        return ["The topic has too many segments here to say what would be deleted."]
    gone = Removal(then.segments - now.segments, then.bytes - now.bytes)
    if gone.segments > 0:
        segments = f"{count_text(gone.segments)} segment{'s' if gone.segments > 1 else ''}"
        return [f"The next check deletes {segments} with {size_text(gone.bytes)} on this broker."]
    return ["The next check deletes nothing more on this broker.", *_growth(visitor, topic, before, after)]


def _growth(visitor: Visitor, topic: TopicImage, before: TopicConfig, after: TopicConfig) -> Iterator[str]:
    """Say how many bytes more are kept, at the rate that there is now."""
    rates = visitor.samples.topic_rates.of(visitor.services, topic.name)
    longer_ms = after.retention_ms - before.retention_ms
    if not after.deletes or rates is None or rates.bytes_in < 1 or before.retention_ms < 0:
        return
    rate = f"at the rate now, {size_text(round(rates.bytes_in))}/s"
    if after.retention_ms < 0:
        yield f"Time deletes nothing any more: {size_text(round(rates.bytes_in * 86_400))} more a day, {rate}."
    elif longer_ms > 0:
        more = size_text(round(rates.bytes_in * longer_ms / 1000))
        yield f"About {more} more are kept after {duration_text(longer_ms)}, {rate}."


async def _removal(visitor: Visitor, topic: TopicImage, config: TopicConfig) -> Removal | None:
    """Return what retention would delete now with some settings; None if there are too many segments to look at."""
    services = visitor.services
    hosted, now_ms = services.partitions.hosted, services.runtime.now_ms()
    logs = [hosted[topic.name, index].log for index in topic.partitions if (topic.name, index) in hosted]
    if sum(len(log.segments) for log in logs) > _SEGMENTS_MAX:
        return None
    policies = services.partitions.settings.delete_policies_for(config)
    count = size = 0
    for log in logs:
        async for segment in services.runtime.slices.over(expired_segments(log, now_ms, policies)):
            if segment is not None:
                count, size = count + 1, size + segment.size
    return Removal(count, size)
