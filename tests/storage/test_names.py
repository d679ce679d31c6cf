"""Names of directories and files, there and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylogbroker.storage import names

topics = st.text("abzAZ09._-", min_size=1, max_size=249)


@given(topics, st.integers(0, 99_999))
def test_a_partition_directory_names_topic_and_partition(topic: str, partition: int) -> None:
    name = names.partition_directory(topic, partition)
    assert names.parse_partition_directory(name) == (topic, partition)


@given(topics, st.integers(0, 99_999))
def test_a_deleted_directory_is_no_partition(topic: str, partition: int) -> None:
    name = names.deleted_directory(names.partition_directory(topic, partition))
    assert names.is_deleted_directory(name)
    assert names.parse_partition_directory(name) is None
    assert len(name) <= 255


@given(topics, st.integers(0, 9_999))
def test_copies_and_imports_have_names_of_their_own(topic: str, partition: int) -> None:
    made = {
        directory(name, number)
        for directory in (names.future_directory, names.import_directory, names.partition_directory)
        for name in (topic, topic[:-1] + "x" * (topic[-1] != "x") or "y")
        for number in (partition, partition + 1)
    }
    assert len(made) >= 6  # of two topics, unless they are the same
    for name in made:
        assert len(name) <= 255
        assert not names.is_deleted_directory(name)
        assert names.is_future_directory(name) == name.endswith("-future")


def test_short_names_of_copies_stay_as_they_were() -> None:
    assert names.future_directory("t" * 246, 0) == "t" * 246 + "_0-future"
    assert names.future_directory("t" * 247, 0) != "t" * 247 + "_0-future"


@pytest.mark.parametrize("name", ["lost+found", "_0", "topic", "topic_", "topic_x", "topic_-1", "topic_\u0663", ""])
def test_other_directories_are_no_partitions(name: str) -> None:
    assert names.parse_partition_directory(name) is None


def test_file_names_have_twenty_digits() -> None:
    assert names.file_of("/d", 42, names.RECORDS) == "/d/00000000000000000042.kafka"
    assert names.parse_file("00000000000000000042.timeindex") == (42, ".timeindex")
    assert names.parse_file("leader-epoch-checkpoint") is None
    assert names.parse_file("0000000000000000004x.kafka") is None
