"""Topologies and the topics that they need."""

from __future__ import annotations

import pytest

from pylogbroker.errors import ErrorCode, KafkaError
from pylogbroker.groups.streams.configuration import GroupTopology, TopicToCreate, check_topology, configure
from pylogbroker.groups.streams.states import StatusCode
from pylogbroker.wire.streams_topology import (
    StreamsCopartitionGroup,
    StreamsKeyValue,
    StreamsSubtopology,
    StreamsTopicInfo,
)
from tests.groups.streams.harness import WORD_COUNT, topology


def joined(*, own: int = 0, sources: tuple[str, ...] = ("a",)) -> GroupTopology:
    """Return a topology that joins topics with a repartition topic `r`, of `own` partitions, that `x` feeds."""
    info = StreamsTopicInfo("r", own)
    group = StreamsCopartitionGroup(list(range(len(sources))), [], [0])
    return topology(
        (
            StreamsSubtopology("0", ["x"], repartition_sink_topics=["r"]),
            StreamsSubtopology("1", list(sources), [], [], [], [info], [group]),
        )
    )


def test_internal_topics_take_their_partitions_from_the_sources() -> None:
    configured = configure(topology(WORD_COUNT), {"words": 4}.get)
    assert configured.problem is StatusCode.MISSING_INTERNAL_TOPICS
    assert configured.missing == (
        TopicToCreate("g-by-word-repartition", 4, 0, {}),
        TopicToCreate("g-counts-changelog", 4, 0, {}),
    )
    assert not configured.is_ready
    assert configured.tasks == {}
    existing = {"words": 4, "g-by-word-repartition": 4, "g-counts-changelog": 4}
    assert configure(topology(WORD_COUNT), existing.get).tasks == {"0": 4, "1": 4}


def test_settings_of_internal_topics_are_kept() -> None:
    info = StreamsTopicInfo("c", 0, 2, [StreamsKeyValue("cleanup.policy", "compact")])
    configured = configure(topology([StreamsSubtopology("0", ["a"], state_changelog_topics=[info])]), {"a": 1}.get)
    assert configured.missing == (TopicToCreate("c", 1, 2, {"cleanup.policy": "compact"}),)


def test_chain_of_repartition_topics_is_decided_from_its_start() -> None:
    chain = [
        StreamsSubtopology("0", ["a", "b"], repartition_sink_topics=["r1"]),
        StreamsSubtopology("2", repartition_source_topics=[StreamsTopicInfo("r2")]),
        StreamsSubtopology("1", [], [], [], ["r2"], [StreamsTopicInfo("r1")]),
    ]
    assert configure(topology(chain), {"a": 2, "b": 5}.get).counts == {"r1": 5, "r2": 5}


def test_missing_sources_are_named() -> None:
    configured = configure(topology(WORD_COUNT), {}.get)
    assert (configured.problem, configured.detail) == (
        StatusCode.MISSING_SOURCE_TOPICS,
        "Source topics words are missing.",
    )


@pytest.mark.parametrize(
    ("configured", "reason"),
    [
        (
            configure(joined(), {"x": 2, "a": 3, "r": 2}.get),
            "r has different number of partitions: expected 3, found 2",
        ),
        (configure(joined(own=2), {"x": 2, "a": 3}.get), r"\[2\] of repartition topic \[r\] doesn't match"),
        (configure(joined(sources=("a", "b")), {"x": 2, "a": 3, "b": 4}.get), "a=3, b=4"),
        (
            configure(
                topology(
                    [
                        StreamsSubtopology("0", [], [], [], ["r"], [StreamsTopicInfo("s")]),
                        StreamsSubtopology("1", [], [], [], ["s"], [StreamsTopicInfo("r")]),
                    ]
                ),
                {}.get,
            ),
            "Failed to compute number of partitions for the repartition topics r, s",
        ),
    ],
)
def test_wrong_numbers_of_partitions_are_named(configured: object, reason: str) -> None:
    problem = getattr(configured, "problem", None)
    assert problem is StatusCode.INCORRECTLY_PARTITIONED_TOPICS
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(getattr(configured, "detail", ""))


def test_joined_repartition_topics_have_the_partitions_of_the_other_source() -> None:
    assert configure(joined(), {"x": 2, "a": 3}.get).counts == {"r": 3}


@pytest.mark.parametrize(
    ("subtopologies", "code"),
    [
        ([StreamsSubtopology("0", source_topic_regex=["a.*"])], ErrorCode.INVALID_REQUEST),
        ([StreamsSubtopology("0")], ErrorCode.STREAMS_INVALID_TOPOLOGY),
        ([StreamsSubtopology("0", ["a"]), StreamsSubtopology("0", ["b"])], ErrorCode.STREAMS_INVALID_TOPOLOGY),
        (
            [StreamsSubtopology("0", ["a"], state_changelog_topics=[StreamsTopicInfo("c", 3)])],
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
        ),
        (
            [StreamsSubtopology("0", repartition_source_topics=[StreamsTopicInfo("r", -1)])],
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
        ),
        (
            [StreamsSubtopology("0", ["a"], copartition_groups=[StreamsCopartitionGroup([1])])],
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
        ),
        ([StreamsSubtopology("0", ["a" * 250] * 3000)], ErrorCode.STREAMS_INVALID_TOPOLOGY),
    ],
)
def test_invalid_topologies_are_rejected(subtopologies: list[StreamsSubtopology], code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as rejected:
        check_topology(topology(subtopologies))
    assert rejected.value.code is code
