"""Whatever a plugin does, it is PluginFailed with its name that comes out, and nothing that could do harm goes in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from twisted.internet.defer import Deferred, fail, succeed
from twisted.python.failure import Failure
from zope.interface import implementer

from pylogbroker.client.errors import PluginFailed
from pylogbroker.client.plugin_guards import (
    Partitioners,
    guarded_assignor,
    guarded_decoder,
    guarded_encoder,
    guarded_handler,
    guarded_partitioner,
)
from pylogbroker.client.plugin_lookup import (
    ASSIGNOR,
    DECODER,
    ENCODER,
    EVENT_HANDLER,
    PARTITIONER,
    PluginKind,
    ResolvedPlugin,
    resolve_plugin,
)
from pylogbroker.errors import ConfigError
from pylogbroker.interfaces import (
    Event,
    IEventHandler,
    IForwardingEventHandler,
    IPartitioner,
    IPartitionerFactory,
    IStickyPartitioner,
    Subscription,
)
from pylogbroker.plugins import serialization
from tests.broker.log_lines import logged_lines

WHATEVER = [ValueError("no"), LookupError(), RecursionError("deep"), SystemExit(1), GeneratorExit()]


class Does:
    """A plugin of any kind: each of its methods calls the same function."""

    name = "clumsy"

    def __init__(self, function: Callable[..., Any]) -> None:
        self.to_message = self.from_message = self.partition = self.handle = self.assign = function


def use(kind: PluginKind[Any], function: Callable[..., Any]) -> ResolvedPlugin[Any]:
    return ResolvedPlugin(kind, "clumsy", Does(function))


def raising(error: BaseException) -> Callable[..., Any]:
    def fails(*given: object) -> Any:
        raise error

    return fails


def check(error: PluginFailed, kind: str, cause: BaseException) -> None:
    assert (error.plugin, error.__cause__) == ("clumsy", cause)
    assert str(error) == f"plugin clumsy: the {kind} failed with {cause!r}"


@pytest.mark.parametrize("error", WHATEVER, ids=repr)
def test_exceptions(error: BaseException) -> None:
    fails = raising(error)
    calls: dict[str, Callable[[], object]] = {
        "encoder": lambda: guarded_encoder(use(ENCODER, fails))("data"),
        "decoder": lambda: guarded_decoder(use(DECODER, fails))(b"data"),
        "partitioner": lambda: guarded_partitioner(use(PARTITIONER, fails))(b"key", 3),
        "assignor": lambda: guarded_assignor(use(ASSIGNOR, fails))({}, {}),
    }
    for kind, call in calls.items():
        with pytest.raises(PluginFailed) as failed:
            call()
        check(failed.value, kind, error)


def test_interrupting_is_not_failing() -> None:
    fails = raising(KeyboardInterrupt())
    for call in (
        lambda: guarded_encoder(use(ENCODER, fails))("data"),
        lambda: guarded_decoder(use(DECODER, fails))(b"data"),
        lambda: guarded_partitioner(use(PARTITIONER, fails))(b"key", 3),
        lambda: guarded_assignor(use(ASSIGNOR, fails))({}, {}),
        lambda: guarded_handler(use(EVENT_HANDLER, fails), BuiltIn())([]),
    ):
        with pytest.raises(KeyboardInterrupt):
            call()


@pytest.mark.parametrize("message", [b"", b"abc", None])
def test_valid_results_of_an_encoder_are_accepted(message: bytes | None) -> None:
    assert guarded_encoder(use(ENCODER, lambda data: message))(7) is message


@pytest.mark.parametrize("message", ["text", 7, bytearray(b"abc"), memoryview(b"abc"), [], False])
def test_invalid_results_of_an_encoder_are_rejected(message: object) -> None:
    with pytest.raises(PluginFailed, match=rf"^plugin clumsy: .*it returned {type(message).__name__}, not bytes"):
        guarded_encoder(use(ENCODER, lambda data: message))(7)


def test_encoders_and_decoders_are_guarded() -> None:
    encode = guarded_encoder(resolve_plugin(ENCODER, "value.serializer", "json", {}))
    decode = guarded_decoder(resolve_plugin(DECODER, "value.deserializer", serialization.json_decoder, {}))
    assert decode(encode({"a": [1]})) == {"a": [1]}
    with pytest.raises(PluginFailed, match=r"^plugin json: the encoder failed with TypeError"):
        encode(object())
    with pytest.raises(PluginFailed, match=r"^plugin json: the decoder failed with JSONDecodeError"):
        decode(b"{")


@pytest.mark.parametrize("chosen", [0, 2, True])
def test_valid_choices_of_a_partitioner_are_accepted(chosen: int) -> None:
    assert guarded_partitioner(use(PARTITIONER, lambda key, count: chosen))(None, 3) == chosen


@pytest.mark.parametrize("chosen", [3, -1, 1.0, None, "1", 10**30])
def test_invalid_choices_of_a_partitioner_are_rejected(chosen: object) -> None:
    with pytest.raises(PluginFailed, match=r"^plugin clumsy: the partitioner failed"):
        guarded_partitioner(use(PARTITIONER, lambda key, count: chosen))(None, 3)


def test_settings_give_each_topic_a_partitioner() -> None:
    partitioners = Partitioners("partitioner.class", "round-robin", {})
    one, other = partitioners.of("one"), partitioners.of("other")
    chosen = [(one.partition(None, 4), other.partition(None, 4)) for _ in range(4)]
    assert {each for each, _ in chosen} == {each for _, each in chosen} == {0, 1, 2, 3}
    assert one.batch_full is None
    with pytest.raises(ConfigError, match=r"^partitioner\.class: 'hsah' is not accepted"):
        Partitioners("partitioner.class", "hsah", {})


@implementer(IStickyPartitioner)
class Sticky:
    def __init__(self, error: BaseException | None = None) -> None:
        self.full: list[str] = []
        self.error = error

    def partition(self, key: bytes | None, num_partitions: int) -> int:
        return len(self.full) % num_partitions

    def batch_full(self, topic: str) -> None:
        self.full.append(topic)
        if self.error:
            raise self.error


def test_an_object_is_the_partitioner_of_all_topics() -> None:
    sticky = Sticky()
    partitioners = Partitioners("partitioner.class", sticky, {})
    for topic in "one", "other":
        made = partitioners.of(topic)
        assert made.batch_full is not None
        made.batch_full()
    assert (sticky.full, made.partition(None, 5)) == (["one", "other"], 2)


def test_a_partitioner_that_fails_between_records_is_logged() -> None:
    partitioner = Partitioners("partitioner.class", Sticky(ValueError("oh")), {}).of("t")
    assert partitioner.batch_full is not None
    with logged_lines() as lines:
        partitioner.batch_full()
    assert lines == ["the partitioner Sticky failed"]
    interrupted = Partitioners("partitioner.class", Sticky(KeyboardInterrupt()), {}).of("t")
    assert interrupted.batch_full is not None
    with pytest.raises(KeyboardInterrupt):
        interrupted.batch_full()


@implementer(IPartitionerFactory)
class Once:
    """Makes one partitioner, and no other."""

    name = "once"

    def __init__(self) -> None:
        self.made = 0

    def make(self, argument: str, settings: object) -> IPartitioner:
        self.made += 1
        if self.made > 1:
            raise LookupError("no more")
        return Sticky()


def test_a_factory_is_tried_when_the_client_is_made() -> None:
    factory = Once()
    partitioners = Partitioners("partitioner.class", factory, {})
    assert factory.made == 1
    partitioners.of("one")
    assert factory.made == 1
    other = partitioners.of("other")
    for _ in range(2):
        with pytest.raises(PluginFailed, match=r"^plugin once: the partitioner failed with .*no more"):
            other.partition(b"key", 3)


@implementer(IEventHandler)
class BuiltIn:
    def __init__(self) -> None:
        self.events: list[Event] = []

    def handle(self, events: Sequence[Event]) -> Deferred[None]:
        self.events += events
        return succeed(None)


def result(deferred: Deferred[Any]) -> Any:
    """Return the result in a list; [] before there is one."""
    found: list[Any] = []
    deferred.addBoth(found.append)
    return found[0] if found else found


EVENTS = [Event("t", b"1"), Event("t", b"2")]


def test_event_handlers_may_answer_with_anything_to_wait_for() -> None:
    async def later() -> str:
        return "done"

    for answer in (lambda events: None, lambda events: succeed("done"), lambda events: later()):
        assert result(guarded_handler(use(EVENT_HANDLER, answer), BuiltIn())(EVENTS)) is None
    waiting: Deferred[str] = Deferred()
    handled = guarded_handler(use(EVENT_HANDLER, lambda events: waiting), BuiltIn())(EVENTS)
    assert not handled.called
    waiting.callback("done")
    assert result(handled) is None


@pytest.mark.parametrize("error", WHATEVER, ids=repr)
def test_event_handlers_may_fail_at_once_or_later(error: BaseException) -> None:
    async def later(events: object) -> None:
        raise error

    for answer in (raising(error), later, lambda events: fail(error)):
        failure = result(guarded_handler(use(EVENT_HANDLER, answer), BuiltIn())(EVENTS))
        assert isinstance(failure, Failure)
        assert isinstance(failure.value, PluginFailed)
        check(failure.value, "event handler", error)


def test_an_event_handler_must_return_an_awaitable() -> None:
    failure = result(guarded_handler(use(EVENT_HANDLER, lambda events: 7), BuiltIn())(EVENTS))
    assert isinstance(failure.value, PluginFailed)
    assert isinstance(failure.value.__cause__, TypeError)


@implementer(IForwardingEventHandler)
class Second:
    """Sends every second event."""

    def forward_to(self, handler: IEventHandler) -> None:
        self.handler = handler

    def handle(self, events: Sequence[Event]) -> Any:
        return self.handler.handle(events[1::2])


def test_event_handlers_may_forward_to_the_built_in_one() -> None:
    built_in = BuiltIn()
    handle = guarded_handler(resolve_plugin(EVENT_HANDLER, "event.handler", Second(), {}), built_in)
    assert result(handle(EVENTS)) is None
    assert built_in.events == EVENTS[1:]


MEMBERS = {"a": Subscription(["t", "u"]), "b": Subscription(["t"])}


def test_assignments() -> None:
    def assign(partitions: object, members: object) -> Any:
        return {"a": (("t", 0), ("u", 0)), "b": [("t", 1)]}

    assert guarded_assignor(use(ASSIGNOR, assign))({"t": 2, "u": 1}, MEMBERS) == {
        "a": [("t", 0), ("u", 0)],
        "b": [("t", 1)],
    }
    nothing = guarded_assignor(use(ASSIGNOR, lambda *given: {}))
    assert nothing({"t": 2, "u": 1}, MEMBERS) == {"a": [], "b": []}


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"a": [("t", 2)]}, "t-2 cannot be assigned to a"),
        ({"a": [("t", -1)]}, "t--1 cannot be assigned to a"),
        ({"a": [("v", 0)]}, "v-0 cannot be assigned to a"),
        ({"b": [("u", 0)]}, "u-0 cannot be assigned to b"),
        ({"c": [("t", 0)]}, "t-0 cannot be assigned to c"),
        ({"a": [("t", 0)], "b": [("t", 0)]}, "t-0 is assigned twice"),
        ({"a": [("t", 0), ("t", 0)]}, "t-0 is assigned twice"),
        ({"a": [7]}, "TypeError"),
        (None, "AttributeError"),
    ],
)
def test_assignments_that_cannot_be(answer: object, why: str) -> None:
    with pytest.raises(PluginFailed, match=rf"^plugin clumsy: the assignor failed with .*{why}"):
        guarded_assignor(use(ASSIGNOR, lambda *given: answer))({"t": 2, "u": 1}, MEMBERS)
