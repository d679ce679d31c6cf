"""Callback handlers see, change and drop records in their order; one that fails is named."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs
import pytest

from pylogbroker.client.callbacks import Callbacks
from pylogbroker.client.errors import PluginFailed
from pylogbroker.client.plugin_lookup import CALLBACK_HANDLER, resolve_plugins
from pylogbroker.interfaces import CallbackHandler, Event
from tests.broker.log_lines import logged_lines


def callbacks(*handlers: object) -> Callbacks:
    return Callbacks(resolve_plugins(CALLBACK_HANDLER, "callback.handlers", handlers, {}))


class Shout(CallbackHandler):
    """Puts another event in the place of each."""

    def before_enqueue(self, event: Event) -> Event | None:
        return attrs.evolve(event, value=event.value.upper())

    def before_send(self, events: Sequence[Event]) -> Sequence[Event]:
        return [attrs.evolve(event, value=f"{event.value}!") for event in events]


class Short(CallbackHandler):
    """Lets only short values pass, and notes what it sees."""

    def __init__(self) -> None:
        self.seen: list[object] = []

    def before_enqueue(self, event: Event) -> Event | None:
        self.seen.append(event.value)
        return event if len(event.value) < 3 else None

    def after_enqueue(self, event: Event, is_queued: bool) -> None:
        self.seen.append((event.value, is_queued))

    def before_send(self, events: Sequence[Event]) -> Sequence[Event]:
        self.seen.append([event.value for event in events])
        return tuple(event for event in events if len(event.value) < 3)

    def close(self) -> None:
        self.seen.append("closed")


def test_each_handler_gets_the_result_of_the_one_before() -> None:
    shout, short = Shout(), Short()
    both = callbacks(shout, short)
    assert both.handlers == (shout, short)
    assert (both.before_enqueue, both.before_send, both.after_enqueue) != (None, None, None)
    ticket = object()
    changed = both.before_enqueue(Event("t", "a", ticket=ticket))
    assert (changed.value, changed.topic, changed.ticket) == ("A", "t", ticket)
    assert both.before_enqueue(Event("t", "abc")) is None
    both.after_enqueue(changed, True)
    assert [event.value for event in both.before_send([Event("t", "a"), Event("t", "bc")])] == ["a!"]
    both.close()
    assert short.seen == ["A", "ABC", ("A", True), ["a!", "bc!"], "closed"]


def test_a_handler_after_one_that_drops_sees_nothing() -> None:
    last = Short()
    chain = callbacks(Short(), last)
    assert chain.before_enqueue is not None
    assert chain.before_send is not None
    assert chain.before_enqueue(Event("t", "abc")) is None
    assert list(chain.before_send([Event("t", "abc")])) == []
    assert last.seen == []


def test_a_step_that_nobody_takes_is_none() -> None:
    for chain in callbacks(), callbacks(CallbackHandler()):
        steps = (chain.before_enqueue, chain.after_enqueue, chain.after_dequeue, chain.before_send)
        assert steps == (None, None, None, None)
        chain.close()
    only = callbacks(Shout())
    assert (only.after_enqueue, only.after_dequeue) == (None, None)
    assert None not in (only.before_enqueue, only.before_send)


def test_a_method_may_be_the_objects_own() -> None:
    handler: Any = CallbackHandler()
    handler.after_dequeue = lambda events: events[1:]
    chain = callbacks(handler)
    assert chain.after_dequeue is not None
    assert len(chain.after_dequeue([Event("t", 1), Event("t", 2)])) == 1


class Fails(CallbackHandler):
    """Does the same at each step."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.before_enqueue = self.after_enqueue = self.after_dequeue = self.before_send = self.close = function


def called(chain: Callbacks) -> list[Callable[[], object]]:
    event = Event("t", "v")
    before, after, dequeue, send = chain.before_enqueue, chain.after_enqueue, chain.after_dequeue, chain.before_send
    assert before is not None
    assert after is not None
    assert dequeue is not None
    assert send is not None
    return [lambda: before(event), lambda: after(event, True), lambda: dequeue([event]), lambda: send([event])]


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(1)], ids=repr)
def test_exceptions(error: BaseException) -> None:
    def fails(*given: object) -> Any:
        raise error

    chain = callbacks("metrics", Fails(fails))
    for call in called(chain):
        with pytest.raises(PluginFailed) as failed:
            call()
        assert (failed.value.plugin, failed.value.__cause__) == ("Fails", error)
        assert str(failed.value) == f"plugin Fails: the callback handler failed with {error!r}"
    short = Short()
    with logged_lines() as lines:
        callbacks(Fails(fails), short).close()
    assert (lines, short.seen) == (["the callback handler Fails failed"], ["closed"])


def test_interrupting_is_not_failing() -> None:
    def fails(*given: object) -> Any:
        raise KeyboardInterrupt

    chain = callbacks(Fails(fails))
    for call in [*called(chain), chain.close]:
        with pytest.raises(KeyboardInterrupt):
            call()


@pytest.mark.parametrize("answer", ["event", 7, True, [7], [None], ["event"]])
def test_answers_that_cannot_be(answer: object) -> None:
    before, _, dequeue, send = called(callbacks(Fails(lambda *given: answer)))
    for call in before, dequeue, send:
        with pytest.raises(PluginFailed, match=r"^plugin Fails: the callback handler failed with TypeError"):
            call()


def test_returning_none_for_a_batch_is_an_error() -> None:
    _, _, dequeue, send = called(callbacks(Fails(lambda *given: None)))
    for call in dequeue, send:
        with pytest.raises(PluginFailed, match="TypeError"):
            call()
