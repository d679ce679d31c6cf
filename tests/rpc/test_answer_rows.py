"""Rows of answers that a broker made up, left out, or sent twice."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import pytest

from pylogbroker.errors import ErrorCode
from pylogbroker.rpc.answer_rows import WrongRows, rows_by_key, rows_in_order, sole_row
from pylogbroker.wire.messages.create_acls import AclCreationResult, CreateAclsResponse
from pylogbroker.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from pylogbroker.wire.messages.describe_client_quotas import DescribeClientQuotasResponse
from pylogbroker.wire.messages.offset_delete import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def deleted(*group_ids: str) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(results=[DeletableGroupResult(group_id) for group_id in group_ids])


def offsets(**topics: list[int]) -> OffsetDeleteResponse:
    rows = [
        OffsetDeleteResponseTopic(name, [OffsetDeleteResponsePartition(index) for index in indexes])
        for name, indexes in topics.items()
    ]
    return OffsetDeleteResponse(topics=rows)


def key_of(topic: Any, partition: Any) -> tuple[str, int]:
    return topic.name, partition.partition_index


def test_the_row_with_the_fields_is_found_among_others() -> None:
    assert sole_row(deleted("a", "g", "b"), "results", 2, group_id="g").group_id == "g"
    assert sole_row(offsets(t=[0, 1]), "topics.partitions", 2, partition_index=1).partition_index == 1


@pytest.mark.parametrize(("group_ids", "count"), [((), 0), (("h",), 0), (("g", "g"), 2)])
def test_an_answer_without_exactly_one_row_names_broker_api_and_subject(group_ids: tuple[str, ...], count: int) -> None:
    with pytest.raises(WrongRows) as caught:
        sole_row(deleted(*group_ids), "results", 2, group_id="g")
    assert str(caught.value).startswith(f"broker 2 answered DeleteGroups with {count} results for group_id 'g'")
    assert caught.value.code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_broker_may_be_named_by_its_address() -> None:
    with pytest.raises(WrongRows, match=r"^host:9092 answered DeleteGroups with 0 results instead of 1"):
        sole_row(deleted(), "results", "host:9092")


def test_a_list_that_is_null_has_no_rows() -> None:
    with pytest.raises(WrongRows, match="0 results instead of 1"):
        sole_row(DescribeClientQuotasResponse(entries=None), "entries", 1)


def test_rows_are_in_the_order_of_the_keys_and_others_are_left_out() -> None:
    rows = rows_by_key(deleted("b", "x", "a"), "results", 2, ["a", "b", "a"], attrgetter("group_id"))
    assert [(key, row.group_id) for key, row in rows.items()] == [("a", "a"), ("b", "b")]
    keys = [("t", 1), ("u", 0)]
    assert list(rows_by_key(offsets(u=[0], t=[0, 1]), "topics.partitions", 2, keys, key_of)) == keys


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (offsets(t=[0]), "no result for t-1"),
        (offsets(u=[0, 1]), "no result for t-0"),
        (offsets(t=[0, 1, 0]), "2 results for t-0 instead of 1"),
    ],
)
def test_a_key_without_exactly_one_row(answer: OffsetDeleteResponse, message: str) -> None:
    with pytest.raises(WrongRows, match=f"^broker 3 answered OffsetDelete with {message}: "):
        rows_by_key(answer, "topics.partitions", 3, [("t", 0), ("t", 1)], key_of)


def test_rows_without_names_are_counted() -> None:
    answer = CreateAclsResponse(results=[AclCreationResult(), AclCreationResult()])
    assert len(rows_in_order(answer, "results", 1, 2)) == 2
    for count in (1, 3):
        with pytest.raises(WrongRows, match=f"^broker 1 answered CreateAcls with 2 results instead of {count}: "):
            rows_in_order(answer, "results", 1, count)
