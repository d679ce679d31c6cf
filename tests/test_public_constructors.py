"""Public constructors with arguments of wrong types and names: each error names the argument.

Each argument of each constructor gets values of many types. Those that it accepts are listed; all others must raise an
error of this project, a TypeError or a ValueError. A new class or argument without a row here fails the tests.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import attrs
import pytest
from twisted.internet.task import Clock

from pylogbroker import client, testing
from pylogbroker.client import sync
from pylogbroker.config import table
from pylogbroker.errors import ConfigError, PylogbrokerError
from pylogbroker.spark.options import ReadOptions, WriteOptions
from pylogbroker.tap import makeBroker
from pylogbroker.tap.service import BrokerService
from pylogbroker.testing.external import ExternalBroker

NOBODY: Final = "127.0.0.1:1"
ACCEPTABLE: Final = (PylogbrokerError, TypeError, ValueError)
VALUES: Final[Mapping[str, Any]] = {
    "number": 7,
    "zero": 0,
    "negative": -1,
    "fraction": 1.5,
    "nan": math.nan,
    "bytes": b"x",
    "true": True,
    "empty": "",
    "word": "nonsense",
    "nothing": [],
    "list": ["x", 1],
    "mapping": {"a": 1},
    "odd mapping": {1: 2},
    "object": object(),
    "class": int,
}
NUMBERS: Final = {"number", "zero", "fraction"}


@attrs.frozen
class Constructor:
    """A constructor, arguments that it accepts, and kinds of values that its arguments accept."""

    make: Callable[..., Any]
    base: Mapping[str, Any]
    accepted: Mapping[str, Collection[str]]
    names: Mapping[str, str] = attrs.field(factory=dict)
    """Names in errors, for arguments that have another one there."""
    misspelt: Mapping[str, str] = attrs.field(factory=dict)
    """Wrong names, and those that their errors suggest."""


REACTOR: Final = {"reactor": Clock()}
BOOTSTRAP: Final = {"bootstrap": NOBODY}
CLIENT: Final[Mapping[str, Collection[str]]] = {"bootstrap": {"word"}, "reactor": (), "settings": ()}
DECODERS: Final[Mapping[str, Collection[str]]] = {"decoder": (), "key_decoder": ()}
PRODUCER: Final[Mapping[str, Collection[str]]] = {
    **CLIENT,
    **dict.fromkeys(("coordination", "encoder", "key_encoder", "partitioner", "event_handler"), ()),
    "callback_handlers": {"empty", "nothing"},
}
SHARE_CONSUMER: Final[Mapping[str, Collection[str]]] = {**CLIENT, **DECODERS, "group": {"word"}}
CONSUMER: Final[Mapping[str, Collection[str]]] = {
    **CLIENT,
    **DECODERS,
    **dict.fromkeys(("coordination", "assignor", "listener"), ()),
    "group": {"word"},
}
SIMPLE: Final[Mapping[str, Collection[str]]] = {
    **DECODERS,
    "host": {"word"},
    "port": {"number"},
    "protocol": (),
    "reactor": (),
    "settings": (),
}
TIMEOUT: Final[Mapping[str, Collection[str]]] = {"timeout": {*NUMBERS} - {"zero"}, "reactor": ()}
FILTER: Final[Mapping[str, Collection[str]]] = {"pattern": {"word", "empty"}, "internal": {"true"}}
IS_BOOTSTRAP: Final = {"bootstrap": "bootstrap.servers"}
DIRECTORY: Final = {"log.dirs": "/nowhere/data"}
MISSPELT_CLIENT: Final = {
    "bootstap": "the argument bootstrap",
    "setings": "the argument settings",
    "request_timeot_ms": "request.timeout.ms",
}
MISSPELT_BROKER: Final = {"num_partitons": "num.partitions", "data_dri": "the argument data_dir"}

CONSTRUCTORS: Final[Mapping[str, Constructor]] = {
    "client.Producer": Constructor(
        client.Producer, {**BOOTSTRAP, **REACTOR}, PRODUCER, IS_BOOTSTRAP, {**MISSPELT_CLIENT, "lingr_ms": "linger.ms"}
    ),
    "client.AdminClient": Constructor(
        client.AdminClient, {**BOOTSTRAP, **REACTOR}, CLIENT, IS_BOOTSTRAP, MISSPELT_CLIENT
    ),
    "client.ConsumerConnector": Constructor(
        client.ConsumerConnector,
        {**BOOTSTRAP, **REACTOR, "group": "g"},
        CONSUMER,
        IS_BOOTSTRAP,
        {**MISSPELT_CLIENT, "grup": "the argument group", "lisstener": "the argument listener"},
    ),
    "client.ShareConsumer": Constructor(
        client.ShareConsumer,
        {**BOOTSTRAP, **REACTOR, "group": "g"},
        SHARE_CONSUMER,
        IS_BOOTSTRAP,
        {**MISSPELT_CLIENT, "grup": "the argument group", "share_aquire_mode": "share.acquire.mode"},
    ),
    "client.SimpleConsumer": Constructor(
        client.SimpleConsumer, REACTOR, SIMPLE, {}, {"hosst": "the argument host", "fetch_min_byte": "fetch.min.bytes"}
    ),
    "client.Whitelist": Constructor(client.Whitelist, {"pattern": "a"}, FILTER),
    "client.Blacklist": Constructor(client.Blacklist, {"pattern": "a"}, FILTER),
    "sync.Producer": Constructor(
        sync.Producer,
        BOOTSTRAP,
        {**PRODUCER, **TIMEOUT},
        IS_BOOTSTRAP,
        {**MISSPELT_CLIENT, "timout": "the argument timeout"},
    ),
    "sync.AdminClient": Constructor(
        sync.AdminClient,
        BOOTSTRAP,
        {**CLIENT, **TIMEOUT},
        IS_BOOTSTRAP,
        {**MISSPELT_CLIENT, "timout": "the argument timeout"},
    ),
    "sync.ConsumerConnector": Constructor(
        sync.ConsumerConnector,
        {**BOOTSTRAP, "group": "g"},
        {**CONSUMER, **TIMEOUT},
        IS_BOOTSTRAP,
        {**MISSPELT_CLIENT, "timout": "the argument timeout"},
    ),
    "sync.ShareConsumer": Constructor(
        sync.ShareConsumer,
        {**BOOTSTRAP, "group": "g"},
        {**SHARE_CONSUMER, **TIMEOUT},
        IS_BOOTSTRAP,
        {**MISSPELT_CLIENT, "timout": "the argument timeout"},
    ),
    "sync.SimpleConsumer": Constructor(
        sync.SimpleConsumer, {}, {**SIMPLE, **TIMEOUT}, {}, {"timeuot": "the argument timeout"}
    ),
    "testing.Broker": Constructor(
        testing.Broker,
        {},
        {
            "settings": (),
            "brokers": {"number"},
            "data_dir": {"word"},
            "users": (),
            "tls": {"true"},
            "acls": {"nothing"},
            "schema_registry": {"true"},
            "process": {"true"},
            "engine": (),
            "kafka_home": {"word"},
        },
        {},
        {
            **MISSPELT_BROKER,
            "broker": "the argument brokers",
            "schema_registy": "the argument schema_registry",
            "user": "the argument users",
        },
    ),
    "testing.MemoryBroker": Constructor(
        testing.MemoryBroker,
        {},
        {"settings": (), "data_dir": {"word"}, "latency": NUMBERS, "now": NUMBERS},
        {},
        {**MISSPELT_BROKER, "latncy": "the argument latency"},
    ),
    "ExternalBroker": Constructor(
        ExternalBroker, BOOTSTRAP, {"bootstrap": {"word"}, "settings": ()}, {"bootstrap": "bootstrap"}
    ),
    "makeBroker": Constructor(makeBroker, {**REACTOR, "settings": DIRECTORY}, {"reactor": (), "settings": ()}),
}
RESULTS: Final = {
    "AcknowledgeType",
    "Message",
    "MessageSet",
    "Messages",
    "OutOfRange",
    "ProducerRecord",
    "RecordMetadata",
    "Stream",
} | {*("Kafka", "OtherProcess", "TimedOut", "WrongThread")}
"""Classes of values: made by the library or its fixtures, or checked by the call that takes them."""

EACH = pytest.mark.parametrize("name", CONSTRUCTORS)


def test_each_public_class_is_here() -> None:
    public = {
        f"{module.__name__.rpartition('.')[2]}.{name}"
        for module in (client, sync, testing)
        for name in module.__all__
        if inspect.isclass(getattr(module, name)) and name not in RESULTS
    }
    same = {"sync.Whitelist", "sync.Blacklist"}
    assert public - same == {name for name in CONSTRUCTORS if "." in name}


@EACH
def test_each_argument_is_here(name: str) -> None:
    constructor = CONSTRUCTORS[name]
    parameters = inspect.signature(constructor.make).parameters.values()
    own = {each.name for each in parameters if each.kind is not each.VAR_KEYWORD}
    assert own <= constructor.accepted.keys()


@EACH
def test_wrong_types(name: str) -> None:
    constructor = CONSTRUCTORS[name]
    for argument, accepted in constructor.accepted.items():
        shown = constructor.names.get(argument, argument)
        for kind, value in VALUES.items():
            if kind in accepted:
                closed(constructor.make(**{**constructor.base, argument: value}))
                continue
            with pytest.raises(ACCEPTABLE) as error:
                closed(constructor.make(**{**constructor.base, argument: value}))
            assert is_named(shown, argument, str(error.value), value), (argument, kind, error.value)


def is_named(shown: str, argument: str, text: str, value: Any) -> bool:
    """Return whether an error names the argument, or the name of a setting in it."""
    return shown in text or argument in text or (argument == "settings" and isinstance(value, dict) and "a" in text)


@EACH
def test_wrong_names(name: str) -> None:
    constructor = CONSTRUCTORS[name]
    for wrong, right in {**constructor.misspelt, "nosuch_thing_at_all": ""}.items():
        for value in (1, None):
            with pytest.raises(ACCEPTABLE) as error:
                closed(constructor.make(**constructor.base, **{wrong: value}))
            text = str(error.value)
            assert wrong in text or wrong.replace("_", ".") in text
            assert f"did you mean {right}?" in text if right else "did you mean" not in text, text


def closed(made: Any) -> None:
    """Close a client that was made by mistake."""
    if isinstance(made, sync.Producer | sync.AdminClient | sync.ConsumerConnector | sync.SimpleConsumer):
        made.close()


BROKERS: Final[Mapping[str, Callable[[dict[str, Any]], Any]]] = {
    "makeBroker": lambda settings: makeBroker(Clock(), {**DIRECTORY, **settings}),
    "BrokerService": lambda settings: BrokerService(Clock(), {**DIRECTORY, **settings}),
    "Broker": lambda settings: testing.Broker(settings),
    "Broker, named": lambda settings: testing.Broker(**settings),
    "MemoryBroker": lambda settings: testing.MemoryBroker(settings),
}


@pytest.mark.parametrize("make", BROKERS.values(), ids=BROKERS)
def test_settings_of_brokers(make: Callable[[dict[str, Any]], Any]) -> None:
    """Each setting of the table with values of all types is accepted, or its error names it."""
    for name, value in settings_of_all_types():
        reported = name
        try:
            make({name: value})
        except ConfigError as error:
            reported = str(error)
        assert name in reported, (name, value)
    make({"num.partitions": 3, "auto_create_topics_enable": False, "log.retention.ms": -1, "super.users": ["User:a"]})
    with pytest.raises(ConfigError, match=r"num\.partitons: there is no such .*; did you mean num\.partitions\?"):
        make({"num.partitons": 1})
    with pytest.raises(ConfigError, match=r"num\.partitions is given twice"):
        make({"num.partitions": 1, "num_partitions": 2})


def settings_of_all_types() -> Iterator[tuple[str, Any]]:
    names = [name for name in table.BROKER if name not in ("listeners", "http.listeners", "zookeeper.connect")]
    for number, name in enumerate(names):
        for kind in list(VALUES)[number % 3 :: 3]:
            yield name, VALUES[kind]


def test_a_directory_may_be_a_path(tmp_path: Path) -> None:
    assert makeBroker(Clock(), {"log_dirs": tmp_path})._settings == {"log.dirs": str(tmp_path)}
    testing.Broker(data_dir=tmp_path)


def test_users_that_a_file_cannot_have() -> None:
    for name, password in (("a:b", "c"), ("a", "b\nc:d"), ("", "b"), ("a", "")):
        with pytest.raises(ConfigError, match="users: "):
            testing.Broker(users={name: password})


def test_the_settings_of_a_reload() -> None:
    service = makeBroker(Clock(), DIRECTORY)
    for wrong in ({"num.partitons": 1}, {"num.partitions": object()}, ["num.partitions"]):
        failures: list[Any] = []
        service_reload(service, wrong, failures)
        assert len(failures) == 1, wrong


def service_reload(service: BrokerService, settings: Any, failures: list[Any]) -> None:
    """Begin a reload, which fails at once."""
    from twisted.internet.defer import ensureDeferred

    ensureDeferred(service.reload(settings)).addErrback(lambda failure: failures.append(failure.trap(ConfigError)))


SPARK: Final = {"kafka.bootstrap.servers": NOBODY}
WRONG_FOR_SPARK: Final = ("(", "-", "1.5.1", "{", "[]", "null", "\x00")
READ: Final = (
    *("startingOffsets", "startingOffsetsByTimestamp", "startingTimestamp", "startingOffsetsByTimestampStrategy"),
    *("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp", "maxOffsetsPerTrigger", "minOffsetsPerTrigger"),
    *("maxTriggerDelay", "minPartitions", "maxRecordsPerPartition", "failOnDataLoss", "includeHeaders", "pushFilters"),
    *("fetchOffset.numRetries", "fetchOffset.retryIntervalMs", "kafkaConsumer.pollTimeoutMs"),
)


@pytest.mark.parametrize("streaming", [False, True])
def test_options_of_spark(streaming: bool) -> None:
    given = [{"subscribe": "t", option: value} for option in READ for value in WRONG_FOR_SPARK]
    given += [{"assign": value} for value in WRONG_FOR_SPARK] + [{"subscribePattern": "("}]
    for options in given:
        option = list(options)[-1].lower()
        try:
            reported = " ".join(ReadOptions.parse({**SPARK, **options}, streaming=streaming).warnings)
        except ConfigError as error:
            reported = str(error)
        assert option in reported.lower(), (options, reported)
    with pytest.raises(ConfigError, match="option exactlyOnce"):
        WriteOptions.parse({**SPARK, "exactlyOnce": "maybe"})
    for parse in (lambda given: ReadOptions.parse(given, streaming=streaming), WriteOptions.parse):
        for wrong, right in {"includeHeader": "includeHeaders", "kafka.bootstrap.server": "bootstrap.servers"}.items():
            with pytest.raises(ConfigError, match=f"did you mean .*{right}"):
                parse({**SPARK, "subscribe": "t", wrong: "x"})
