"""The records of `__consumer_offsets` against Apache Kafka 3.9: what it wrote is read, and what we write it reads."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pylogbroker.errors import ErrorCode
from pylogbroker.groups import CommittedOffset, GroupCoordinator, GroupSettings, record_schema
from pylogbroker.long_loops import at_once
from pylogbroker.records import Record, entries
from tests.groups.harness import Harness, subscription
from tests.support.oracle_answers import OracleAnswers

SEGMENT = zlib.decompress(
    base64.b64decode(
        "eNpjYIABRkEQyZT0/ZovXGjhLzmjuTD6PwoASe9hBpJiDEwM7LmpuUmpRcUzmBmYGTiS8/OKS3NTi0BKGFiLEvPSUxk08vNSdc0T"
        "zZITDQySdA0sjRN1TcwMzXUt0yyMgSxL8xSjFPOklLQkqG19YM3E62IGqmRgyk1l4NI3NDLXMwBCQwaWyQ8YGMQLgEaJMzCDDWQs"
        "gfkN6gcGBkmIVyFSTDCfMyABECcDHDixSgs6UALnI4xGCRiwdA6QUAHqhYUN1G4bsEtAgBWsmi338MqSRJh5r2GmgxySAGY8i5up"
        "gWyncTGMxrQzBkgogAI9MQcUHmAbGQ3gNnLC1MLMgQBmuF3zj93PQLGrDEYTZxcDwi5GFLvKYKayAHE82K4jxexbUOzqhNGYdkUB"
        "CTmgXSzphL0FjyBWIHYHWyUudJIbxaopMBozTWthsQqeGtiAHE6wkeqiYY0oRv6H0ZhGrgE5VAAYpSw5qWklfTjziHpuqq6pkWGS"
        "SZphoq5xUrK5rolxkqFukrFRmm6iqXGySZqFkUmycRrUpl9gvcRqAjqFRtmDHR6liawaL5ADxaQQRuOJUlCYYKQeduQoNSmAGcoB"
        "T6mLJh3dh2JVNYzGDP8Y5OB3QAt9JogqmBlAAAAR/ke/"
    )
)
"""A segment that Kafka 3.9.0 wrote while librdkafka 2.16 did this, on a topic `t` of two partitions:

- the static member `one` of group `members` was assigned both and committed (t, 0) at 5 with metadata;
- group `alone` committed (t, 1) at 9 and (t, 0) at 1, without membership;
- group `gone` committed (t, 1) at 9 and was deleted;
- a member of group `left` was assigned both, committed (t, 0) at 7 and left.
"""
TRANSACTIONS = zlib.decompress(
    base64.b64decode(
        "eNpjYICDGBDBFCiSawcTYVz4a7n/Chj9Hw5g0iFAQoKBkYExkYGxBCRiwMAMk4OpA+tdCjcRiNvB9hxbPaedQQAiBFIT/BNBowEmdHsY"
        "EfawIdsTfIsBqJQJh5NY0ZRCAUjaCWzNnNnL9YDq4V4PUUDQMAA1gxEkxAFi8KC6lQUekD02Z3PBHoSZloag4WGBHpBJGK5mR3Z1SCpM"
        "Cyvc1fImHe4ors5D0DB70F3NgOZqNni0RFaxn0aOlpB3CBoSGViiJRkjWphRXP0GES3JGB7kQFMKE4YH5JLFcpeRU2SoIYzGkyIx7eFE"
        "tifUAGYiJ9weU6d5V5EjLNQaQcNTCg57kLzOgmKPBUwLFzzCNsy70YEcYaFOCBpmD6Fkxg03LVIw2hHFNDcEDYswQqbxwMOg/rbHRJQw"
        "6EbQ8PSNHgYpGGHNhRIGnTAtvHB7ClhXXUCJ03MwGk+cpmCENROKPecYAKSj67s="
    )
)
"""One that Kafka 3.9.2 wrote while librdkafka 2.16 did this:

- group `a` committed (t, 0) at 1; a transaction committed (t, 0) at 5 and (t, 1) at 6 for it;
- a transaction was aborted in which group `b` would have come to 7;
- for group `c` one transaction wrote (t, 0) at 8 and (t, 1) at 3, then the group itself committed (t, 0) at 9, another
  transaction wrote (t, 1) at 4 and was committed, and then the first one was;
- a transaction in which group `d` comes to (t, 0) at 10 is open; the group itself committed (t, 1) at 2.
"""
T0, T1 = ("t", 0), ("t", 1)
LINE = re.compile(r"^\| offset: (\d+) .* key: (\{.*\}) payload: (\{.*\}|<DELETE>)$", re.MULTILINE)


def records() -> Iterator[Record]:
    for entry in entries(SEGMENT):
        yield from entry.records()


class TestLogOfKafka:
    def loaded(self) -> GroupCoordinator:
        harness = Harness(GroupSettings(partitions=1), loaded=False)
        harness.now = 0
        assert harness.load(0, entries(SEGMENT)).problems == []
        return harness.coordinator

    def offsets(self, group_id: str) -> dict[tuple[str, int], int]:
        found = self.loaded().fetch(group_id).offsets
        return {partition: offset.offset for partition, offset in found.items() if isinstance(offset, CommittedOffset)}

    def test_the_groups_are_there(self) -> None:
        listed = {
            (group.group_id, group.protocol_type, group.state) for group in at_once(self.loaded().list_groups())[1]
        }
        assert listed == {("members", "consumer", "Stable"), ("alone", "", "Empty"), ("left", "consumer", "Empty")}

    def test_members_written_by_kafka_are_read(self) -> None:
        group = self.loaded().describe("members")
        assert group.protocol_name == "range"
        (member,) = group.members
        assert (member.instance_id, member.client_id, member.client_host) == ("one", "me", "/127.0.0.1")
        assert member.assignment == bytes.fromhex("0000 00000001 0001 74 00000002 00000000 00000001 00000000")

    def test_offsets_written_by_kafka_are_read(self) -> None:
        assert self.offsets("members") == {T0: 5}
        assert self.offsets("alone") == {T0: 1, T1: 9}
        assert self.offsets("left") == {T0: 7}
        assert self.offsets("gone") == {}

    def test_we_would_have_written_the_same_bytes(self) -> None:
        for record in records():
            assert record.key is not None
            key = record_schema.decode_key(record.key)
            if isinstance(key, record_schema.OffsetCommitKey):
                assert record_schema.encode_offset_key(key.group, key.topic, key.partition) == record.key
                if record.value is not None:
                    assert (
                        record_schema.encode_offset_value(record_schema.decode_offset_value(record.value))
                        == record.value
                    )
            else:
                assert key is not None
                assert record.value is not None
                assert record_schema.encode_group_key(key.group) == record.key
                assert record_schema.encode_group_value(record_schema.decode_group_value(record.value)) == record.value


@pytest.mark.parametrize(
    ("group_id", "offsets", "stable"),
    [
        ("a", [5, 6], [5, 6]),
        ("b", [None, None], [None, None]),
        ("c", [9, 4], [9, 4]),
        ("d", [None, 2], [ErrorCode.UNSTABLE_OFFSET_COMMIT, 2]),
    ],
)
def test_transactional_offsets_written_by_kafka_are_read(group_id: str, offsets: list[Any], stable: list[Any]) -> None:
    """Offsets are those that Kafka itself answers."""
    harness = Harness(GroupSettings(partitions=1), loaded=False)
    assert harness.load(0, entries(TRANSACTIONS)).problems == []
    assert [harness.offset("t", index, group_id) for index in (0, 1)] == offsets
    assert [harness.stable_offset("t", index, group_id) for index in (0, 1)] == stable


def test_kafka_reads_our_records(tmp_path: Path, oracle: OracleAnswers) -> None:
    """Kafka's log dump tool decodes our records."""
    harness = Harness()
    (member,) = harness.stable()
    harness.commit({T0: CommittedOffset(7, 3, "méta", 1_500), T1: CommittedOffset(8, committed=1_501)}, member)
    harness.commit({T0: CommittedOffset(9, committed=1_502, expires=1_503)}, member)
    harness.leave(member.member_id)
    assert harness.coordinator.delete_group("g", harness.now) is ErrorCode.NONE
    assert dumped(oracle, harness, tmp_path) == [
        ({"group": "g"}, stable_group(harness)),
        (offset_key(0), {"offset": 7, "leaderEpoch": 3, "metadata": "méta", "commitTimestamp": 1_500}),
        (offset_key(1), {"offset": 8, "leaderEpoch": -1, "metadata": "", "commitTimestamp": 1_501}),
        (offset_key(0), {"offset": 9, "metadata": "", "commitTimestamp": 1_502, "expireTimestamp": 1_503}),
        ({"group": "g"}, empty_group(harness)),
        (offset_key(0), None),
        (offset_key(1), None),
        ({"group": "g"}, None),
    ]


def dumped(oracle: OracleAnswers, harness: Harness, directory: Path) -> list[tuple[Any, Any]]:
    """Each record's key and value as Kafka's tool understands them."""
    segment = directory / "00000000000000000000.log"
    segment.write_bytes(b"".join(harness.log_port.batches[harness.coordinator.partition_for("g")]))
    output = oracle.dump_of("group-records", directory, "--offsets-decoder")
    return [
        (json.loads(key)["data"], None if value == "<DELETE>" else json.loads(value)["data"])
        for _, key, value in LINE.findall(output)
    ]


def offset_key(partition: int) -> dict[str, Any]:
    return {"group": "g", "topic": "t", "partition": partition}


def stable_group(harness: Harness) -> dict[str, Any]:
    assert subscription("t") == bytes.fromhex("0000 00000001 0001 74 ffffffff")
    member = {
        "memberId": "client-id1",
        "groupInstanceId": None,
        "clientId": "client",
        "clientHost": "/127.0.0.1",
        "rebalanceTimeout": 60_000,
        "sessionTimeout": 10_000,
        "subscription": {"topics": ["t"], "userData": None},
        "assignment": base64.b64encode(b"client-id1").decode(),
    }
    return {
        "protocolType": "consumer",
        "generation": 1,
        "protocol": "range",
        "leader": "client-id1",
        "currentStateTimestamp": harness.now,
        "members": [member],
    }


def empty_group(harness: Harness) -> dict[str, Any]:
    return {
        "protocolType": "consumer",
        "generation": 2,
        "protocol": None,
        "leader": None,
        "currentStateTimestamp": harness.now,
        "members": [],
    }
