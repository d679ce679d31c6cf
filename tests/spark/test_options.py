"""Options that are accepted, rejected or ignored, compared with Spark's own source."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pylogbroker.errors import ConfigError
from pylogbroker.spark.options import ReadOptions, Retries, TopicSelection, TriggerLimits, WriteOptions
from pylogbroker.spark.options.positions import ByTime
from pylogbroker.wire.messages.list_offsets import EARLIEST, LATEST
from tests.support.oracle_answers import OracleAnswers

NOBODY = "127.0.0.1:1"
BASE = {"kafka.bootstrap.servers": NOBODY, "subscribe": "t"}
BARE = {"kafka.bootstrap.servers": NOBODY}
LONG_MAX = str(2**63 - 1)  # what Scala's programs give for "no limit"


def parse(streaming: bool = False, **more: Any) -> ReadOptions:
    return ReadOptions.parse({**BASE, **more}, streaming=streaming)


def json_of(*values: int) -> str:
    return json.dumps({"t": {str(number): value for number, value in enumerate(values)}})


def test_defaults_of_a_batch() -> None:
    options = parse()
    assert (options.topics, options.start, options.end) == (TopicSelection(names=("t",)), EARLIEST, LATEST)
    assert (options.min_partitions, options.max_records, options.stall_timeout) == (None, None, 120.0)
    assert (options.fail_on_data_loss, options.include_headers, options.latest_if_none) == (True, False, False)
    assert (options.limits, options.retries, options.warnings) == (
        TriggerLimits(None, None, 900_000),
        Retries(3, 1.0),
        (),
    )


def test_defaults_of_a_stream() -> None:
    assert (parse(streaming=True).start, parse(streaming=True).end) == (LATEST, LATEST)


@pytest.mark.parametrize(
    ("options", "name", "value"),
    [
        ({"subscribe": " a, b ,,a"}, "topics", TopicSelection(names=("a", "b"))),
        ({"subscribe": None, "subscribePattern": " a.*b "}, "topics", TopicSelection(pattern="a.*b")),
        (
            {"subscribe": None, "assign": '{"b": [0], "a": [2, 1, 2]}'},
            "topics",
            TopicSelection(assigned=(("a", 1), ("a", 2), ("b", 0))),
        ),
        ({"startingOffsets": " Earliest "}, "start", EARLIEST),
        ({"startingOffsets": json_of(5, -2)}, "start", {("t", 0): 5, ("t", 1): -2}),
        ({"startingOffsetsByTimestamp": json_of(5)}, "start", ByTime({("t", 0): 5})),
        (
            {"startingTimestamp": " 7 ", "startingOffsetsByTimestamp": json_of(5), "startingOffsets": json_of(1)},
            "start",
            ByTime(7),
        ),
        ({"startingOffsetsByTimestamp": json_of(5), "startingOffsets": json_of(1)}, "start", ByTime({("t", 0): 5})),
        ({"endingOffsets": json_of(5, -1)}, "end", {("t", 0): 5, ("t", 1): -1}),
        ({"endingTimestamp": "0"}, "end", ByTime(0)),
        ({"endingTimestamp": LONG_MAX}, "end", ByTime(2**63 - 1)),
        ({"maxOffsetsPerTrigger": LONG_MAX, "minOffsetsPerTrigger": "5"}, "limits", TriggerLimits(2**63 - 1, 5)),
        ({"startingOffsetsByTimestampStrategy": "LATEST"}, "latest_if_none", True),
        ({"minpartitions": "4"}, "min_partitions", 4),
        ({"maxRecordsPerPartition": "4"}, "max_records", 4),
        ({"FAILONDATALOSS": "False"}, "fail_on_data_loss", False),
        ({"kafkaConsumer.pollTimeoutMs": "500"}, "stall_timeout", 0.5),
        ({"fetchOffset.numRetries": "0", "fetchOffset.retryIntervalMs": "10"}, "retries", Retries(1, 0.01)),
    ],
)
def test_values(options: dict[str, Any], name: str, value: object) -> None:
    given = {key: text for key, text in {**BASE, **options}.items() if text is not None}
    assert getattr(ReadOptions.parse(given, streaming=False), name) == value


@pytest.mark.parametrize(("text", "expected"), [("250", 250), ("30s", 30_000), ("2 min", 120_000), ("1h", 3_600_000)])
def test_durations(text: str, expected: int) -> None:
    assert parse(streaming=True, maxTriggerDelay=text).limits.longest_delay == expected


#: Options that Spark's own source rejects for a batch, and what must be in our text.
REJECTED: dict[str, tuple[dict[str, str], str]] = {
    "no servers": ({"subscribe": "t"}, "kafka.bootstrap.servers is missing"),
    "no topics": (BARE, "none of the options subscribe, subscribePattern and assign is given"),
    "two kinds of topics": ({**BASE, "assign": '{"t": [0]}'}, "subscribe, assign of the options .* give only one"),
    "empty subscribe": ({**BASE, "subscribe": " , "}, "names no topic"),
    "empty pattern": ({**BARE, "subscribePattern": "  "}, "subscribePattern: it is empty"),
    "wrong pattern": ({**BARE, "subscribePattern": "("}, "is not a Python regular expression"),
    "assign of no JSON": ({**BARE, "assign": "x"}, "option assign"),
    "assign of texts": ({**BARE, "assign": '{"t": ["0"]}'}, "option assign"),
    "from latest": ({**BASE, "startingOffsets": "latest"}, "only for a stream"),
    "from latest, by partition": ({**BASE, "startingOffsets": json_of(-1)}, "only for a stream"),
    "to earliest": ({**BASE, "endingOffsets": "earliest"}, "nothing would be read"),
    "to earliest, by partition": ({**BASE, "endingOffsets": json_of(-2)}, "nothing would be read"),
    "end before start": ({**BASE, "startingOffsets": json_of(5), "endingOffsets": json_of(4)}, "which is before"),
    "other partitions": ({**BASE, "startingOffsets": json_of(5), "endingOffsets": json_of(6, 7)}, "same partitions"),
    "end before start, in time": (
        {**BASE, "startingOffsetsByTimestamp": json_of(5), "endingOffsetsByTimestamp": json_of(4)},
        "which is before",
    ),
    "offsets of no JSON": (
        {**BASE, "startingOffsets": "foo"},
        "'foo' is not accepted; expected earliest, latest, or JSON",
    ),
    "offsets as texts": ({**BASE, "startingOffsets": '{"t": {"0": "7"}}'}, "JSON such as"),
    "a time that is none": ({**BASE, "startingTimestamp": "x"}, "startingTimestamp: 'x' is not accepted"),
    "no partitions": ({**BASE, "minPartitions": "0"}, "minPartitions: '0' is not accepted"),
    "partitions that are no number": ({**BASE, "minPartitions": "x"}, "minPartitions: 'x' is not accepted"),
    "more partitions than there can be": ({**BASE, "minPartitions": str(2**31)}, "from 1 to 2147483647"),
    "a time that is too late": (
        {**BASE, "endingTimestamp": str(2**63)},
        "endingTimestamp: '9223372036854775808' is not",
    ),
    "no records": ({**BASE, "maxRecordsPerPartition": "0"}, "maxRecordsPerPartition: '0' is not accepted"),
    "neither true nor false": ({**BASE, "failOnDataLoss": "x"}, "expected true or false"),
    "a strategy that is none": ({**BASE, "startingOffsetsByTimestampStrategy": "foo"}, "expected error, latest"),
    "least above most": ({**BASE, "minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"}, "is more than"),
    "auto.offset.reset": ({**BASE, "kafka.auto.offset.reset": "latest"}, "option startingOffsets instead"),
    "key.deserializer": ({**BASE, "kafka.key.deserializer": "x"}, "DataFrame operations"),
    "value.deserializer": ({**BASE, "kafka.value.deserializer": "x"}, "DataFrame operations"),
    "enable.auto.commit": ({**BASE, "kafka.enable.auto.commit": "false"}, "never commits"),
    "interceptor.classes": ({**BASE, "kafka.interceptor.classes": "x"}, "interceptors"),
    "a protocol that is none": ({**BASE, "kafka.security.protocol": "FOO"}, "expected PLAINTEXT, SSL"),
}
#: Options that it rejects for a stream.
REJECTED_FOR_STREAMS: dict[str, tuple[dict[str, str], str]] = {
    "endingOffsets": ({**BASE, "endingOffsets": "latest"}, "a stream has no end"),
    "endingOffsetsByTimestamp": ({**BASE, "endingOffsetsByTimestamp": json_of(5)}, "a stream has no end"),
}
#: What it would go on with, though it cannot be what is meant.
REJECTED_HERE: dict[str, tuple[dict[str, str], str]] = {
    "assign of nothing": ({**BARE, "assign": "{}"}, "names no partition"),
    "an offset that is too large": ({**BASE, "startingOffsets": json_of(2**63)}, "JSON such as"),
    "an offset that is none": ({**BASE, "startingOffsets": json_of(-3)}, "JSON such as"),
    "a pattern that means something else in Java": ({**BARE, "subscribePattern": "^[a-z&&[^b]]$"}, "set"),
    "a misspelt option": ({**BASE, "startingOfsets": "earliest"}, "did you mean startingOffsets"),
    "a misspelt setting": ({**BASE, "kafka.isolaton.level": "read_committed"}, "did you mean kafka.isolation.level"),
    "partitions not assigned": (
        {**BARE, "assign": '{"t": [0, 1]}', "startingOffsets": json_of(5)},
        "exactly the partitions",
    ),
}


@pytest.mark.parametrize("name", [*REJECTED, *REJECTED_HERE])
def test_rejected(name: str) -> None:
    options, text = {**REJECTED, **REJECTED_HERE}[name]
    with pytest.raises(ConfigError, match=text):
        ReadOptions.parse(options, streaming=False)


@pytest.mark.parametrize(
    "options", [*(each for each, _ in REJECTED_FOR_STREAMS.values()), {**BASE, "endingTimestamp": "5"}]
)
def test_rejected_for_a_stream(options: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="a stream has no end"):
        ReadOptions.parse(options, streaming=True)


def test_sparks_own_source_rejects_them_too(request: pytest.FixtureRequest, oracle: OracleAnswers) -> None:
    question = repr([(name, options) for name, (options, _) in {**REJECTED, **REJECTED_FOR_STREAMS}.items()])
    assert oracle.answer("spark-accepts", question, lambda: _accepted(request.getfixturevalue("spark"))) == {}


def _accepted(spark: SparkSession) -> dict[str, str | None]:
    """Return those of the options that Spark's own source accepts, with its error about the broker."""
    quick = {"kafka.default.api.timeout.ms": "300", "kafka.request.timeout.ms": "200", "fetchOffset.numRetries": "1"}
    accepted: dict[str, str | None] = {}
    for name, (options, _) in {**REJECTED, **REJECTED_FOR_STREAMS}.items():
        read = spark.readStream if name in REJECTED_FOR_STREAMS else spark.read
        try:
            frame = read.format("kafka").options(**quick, **options).load()
            if name not in REJECTED_FOR_STREAMS:
                frame.collect()
        except Exception as error:
            if "TimeoutException" in str(error):
                accepted[name] = str(error)
        else:
            accepted[name] = None
    return accepted


@pytest.mark.parametrize("name", ["maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay"])
def test_limits_of_streams_are_passed_over_by_a_batch(name: str) -> None:
    assert parse(**{name: "5"}).warnings == (f"option {name} is ignored: it applies only to streams",)


def test_unsupported_kafka_options_are_ignored_with_a_warning() -> None:
    options = parse(
        **{
            "kafka.max.poll.records": "x",
            "kafka.metric.reporters": "com.example.Reporter",
            "kafka.group.id": "g",
            "kafka.socket.connection.setup.timeout.max.ms": "1",
            "kafka.security.protocol": "plaintext",
            "unheard": "of",
            "topic": "for the sink",
        }
    )
    assert sorted(options.warnings) == [
        "option kafka.group.id has no effect here and is ignored",
        "option kafka.max.poll.records has no effect here and is ignored",
        "option kafka.metric.reporters has no effect here and is ignored",
        "option kafka.socket.connection.setup.timeout.max.ms has no effect here and is ignored",
        "option unheard is unknown and ignored",
    ]


def test_settings_of_the_client() -> None:
    settings = parse(**{"kafka.Isolation.Level": "READ_COMMITTED", "kafka.fetch.max.bytes": "77"}).settings
    assert (settings.text("isolation.level"), settings.integer("fetch.max.bytes")) == ("read_committed", 77)
    assert settings.text("client.id") == "pylogbroker-spark"
    with pytest.raises(ConfigError, match=r"fetch\.max\.bytes: 'x' is not accepted"):
        parse(**{"kafka.fetch.max.bytes": "x"})


def test_options_of_the_sink() -> None:
    options = WriteOptions.parse({**BASE, "topic": " out ", "kafka.acks": "1", "includeHeaders": "true"})
    assert (options.topic, options.exactly_once) == ("out", True)
    assert options.settings.text("acks") == "1"
    assert options.warnings == ()


def test_settings_that_javas_producer_calls_otherwise() -> None:
    """A level of another codec, and one that changes nothing, do not count."""
    given = {
        "kafka.compression.type": "zstd",
        "kafka.compression.zstd.level": "-7",
        "kafka.compression.gzip.level": "99",
        "kafka.max.block.ms": str(2**63 - 1),
        "kafka.partitioner.ignore.keys": "false",
    }
    options = WriteOptions.parse({**BARE, **given})
    assert (options.settings["compression.level"], options.warnings) == (-7, ())
    assert options.settings.integer("default.api.timeout.ms") == 2**31 - 1


@pytest.mark.parametrize(
    "options",
    [
        {"topic": " "},
        {"kafka.key.serializer": "x"},
        {"kafka.value.serializer": "x"},
        {"kafka.transactional.id": "x"},
        {"kafka.partitioner.class": "x"},
        {"kafka.partitioner.ignore.keys": "true"},
        {"kafka.compression.type": "lz4", "kafka.compression.level": "-1"},
        {"kafka.compression.type": "zstd", "kafka.compression.level": "23"},
        {"kafka.security.protocol": "SASL"},
        {"kafka.acks": "2"},
        {"exactlyOnce": "x"},
        {"kafka.bootstrap.servers": " "},
    ],
)
def test_rejected_by_the_sink(options: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        WriteOptions.parse({**BARE, **options})
