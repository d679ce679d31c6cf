"""Topics of message formats v0 and v1, read by clients that ask with new versions.

librdkafka 2.5 to 2.15 takes these formats for nothing in Fetch 12 and later, and reports no error.  kafka-python is the
independent check of what is read.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest

from tests.clients.adapters.base import Codec
from tests.clients.adapters.confluent import Confluent
from tests.clients.adapters.kafka_python import KafkaPython
from tests.clients.admin import create_topic
from tests.clients.model import START, Rec

RECORDS = [
    *(Rec(b"%d" % number * 50, b"key", timestamp=START + number) for number in range(30)),
    Rec(None, b"tombstone", timestamp=START + 40),
    Rec(b"no key", timestamp=START + 50),
    Rec(b"", b"", timestamp=START + 60),
]
FORMATS: dict[str, tuple[Codec, ...]] = {
    "0.9.0": ("none", "gzip", "snappy", "lz4"),
    "0.10.2": ("none", "gzip", "snappy", "lz4"),
}


@pytest.mark.parametrize("append_time", [False, True], ids=["create-time", "append-time"])
@pytest.mark.parametrize("version", FORMATS)
def test_old_formats_are_read(
    bootstrap: str, against: str, fresh_name: Callable[[], str], version: str, append_time: bool
) -> None:
    if against:
        pytest.skip("Kafka writes no old formats since 3.0")
    topic = fresh_name()
    kind = "LogAppendTime" if append_time else "CreateTime"
    create_topic(bootstrap, topic, configs={"message.format.version": version, "message.timestamp.type": kind})
    writer = Confluent()
    for codec in FORMATS[version]:
        writer.write(bootstrap, topic, RECORDS, codec=codec)
    found = Confluent().read(bootstrap, topic, [0])
    assert _timeless(found) == _timeless(
        [attrs.evolve(each, offset=offset) for offset, each in enumerate(RECORDS * len(FORMATS[version]))]
    )
    assert found == KafkaPython().read(bootstrap, topic, [0])
    times = [each.timestamp for each in found]
    if version == "0.9.0":
        assert set(times) == {-1}
    elif append_time:
        assert all(time is not None and time > START + 60_000 for time in times)
    else:
        assert times == [each.timestamp for each in RECORDS] * len(FORMATS[version])


def _timeless(records: list[Rec]) -> list[Rec]:
    return [attrs.evolve(each, timestamp=None) for each in records]
