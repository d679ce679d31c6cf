"""Texts of errors in answers: whatever is quoted in them, the answer can be sent, and is not made of them."""

from __future__ import annotations

import pytest

from pylogbroker.wire import codec
from pylogbroker.wire.messages.create_partitions import CreatePartitionsResponse, CreatePartitionsTopicResult
from pylogbroker.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)

VERSIONS = [0, 3]
"""One with two bytes for the length of a string, and a flexible one."""


def sent(version: int, *texts: str | None) -> list[str | None]:
    """The texts as they arrive, each of a topic's result."""
    ours = codec(CreatePartitionsResponse, version)
    results = [CreatePartitionsTopicResult("t", 37, text) for text in texts]
    return [
        result.error_message for result in ours.decode(ours.encode(CreatePartitionsResponse(results=results))).results
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_text_of_usual_length_is_whole(version: int) -> None:
    texts = ["why", "", None, "名前" * 500]
    assert sent(version, *texts) == texts


@pytest.mark.parametrize("version", VERSIONS)
def test_a_long_text_is_cut(version: int) -> None:
    [text] = sent(version, "名" * 40_000)
    assert text == "名" * 997 + "..."


@pytest.mark.parametrize("version", VERSIONS)
def test_the_texts_of_one_answer_are_limited_together(version: int) -> None:
    texts = sent(version, *["x" * 1000] * 3000)
    assert sum(len(text or "") for text in texts) == 1 << 20
    assert texts[0] == "x" * 1000
    assert texts[-1] == ""


def test_texts_in_nested_structs() -> None:
    """Produce 8 and later: an error of a partition, and of each record."""
    errors = [BatchIndexAndErrorMessage(0, "y" * 40_000), BatchIndexAndErrorMessage(1, "short")]
    partition = PartitionProduceResponse(0, 87, record_errors=errors, error_message="z" * 40_000)
    for version in (8, 11):
        ours = codec(ProduceResponse, version)
        answer = ours.decode(ours.encode(ProduceResponse([TopicProduceResponse("t", [partition])])))
        [found] = answer.responses[0].partition_responses
        assert [each.batch_index_error_message for each in found.record_errors] == ["y" * 997 + "...", "short"]
        assert found.error_message == "z" * 997 + "..."
