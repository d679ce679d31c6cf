"""Timers, and the event queue."""

from weakref import WeakSet

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylogbroker.coordinators import Call, EventQueue, Timer, Timers, run_all
from pylogbroker.long_loops import give_way


def fire(timers: Timers, now_ms: int) -> None:
    """Run all actions that are due."""
    while timers.fire_next(now_ms):
        pass


class TestTimers:
    def test_timers_fire_in_the_order_of_their_deadlines(self) -> None:
        timers, fired = Timers(), []
        for due in (30, 10, 20, 10):
            timers.start(due, lambda now_ms, due=due: fired.append(due))  # type: ignore[misc]
        assert timers.next_due() == 10
        fire(timers, 20)
        assert fired == [10, 10, 20]
        assert timers.next_due() == 30

    def test_one_timer_fires_at_a_time(self) -> None:
        timers, fired = Timers(), []
        for due in (10, 20):
            timers.start(due, fired.append)
        assert [timers.fire_next(20), list(fired)] == [True, [20]]
        assert [timers.fire_next(20), list(fired)] == [True, [20, 20]]
        assert not timers.fire_next(20)

    def test_a_cancelled_timer_does_not_fire(self) -> None:
        timers, fired = Timers(), []
        timers.start(10, fired.append).cancel()
        assert timers.next_due() is None
        fire(timers, 10)
        assert fired == []

    def test_cancelled_timers_are_forgotten_long_before_their_deadlines(self) -> None:
        class Action:
            def __call__(self, now_ms: int) -> None:
                fired.append(now_ms)

        timers, fired = Timers(), list[int]()
        kept = [timers.start(due, fired.append) for due in (30, 10, 20)]
        actions = WeakSet[Action]()
        for number in range(20_000):
            action = Action()
            actions.add(action)
            timers.start(1_000_000 + number, action).cancel()
        del action
        assert len(actions) < 2000
        kept[1].cancel()
        fire(timers, 2_000_000)
        assert fired == [2_000_000] * 2

    def test_a_fired_timer_can_be_moved(self) -> None:
        timers, fired = Timers(), []
        timer = timers.start(10, fired.append)
        fire(timers, 10)
        timers.move(timer, 15)
        fire(timers, 20)
        assert fired == [10, 20]

    def test_a_timer_started_by_an_action_fires_if_it_is_due(self) -> None:
        timers, fired = Timers(), []
        timers.start(10, lambda now_ms: timers.start(now_ms, fired.append) and None)
        fire(timers, 12)
        assert fired == [12]

    def test_the_driver_is_notified_of_earlier_deadlines_only(self) -> None:
        reported: list[int] = []
        timers = Timers(reported.append)
        timer = timers.start(20, lambda now_ms: None)
        timers.start(30, lambda now_ms: None)
        timers.start(10, lambda now_ms: None)
        timers.move(timer, 40)
        timers.move(timer, 5)
        assert reported == [20, 10, 5]

    @given(st.lists(st.tuples(st.integers(0, 4), st.none() | st.integers(0, 50)), max_size=40))
    def test_a_timer_fires_once_for_the_last_deadline_it_was_given(self, changes: list[tuple[int, int | None]]) -> None:
        """Five timers are started, moved and cancelled (None); a plain dictionary says what must come of it."""
        timers, fired = Timers(), []
        made: dict[int, Timer] = {}
        wanted: dict[int, int] = {}
        for number, due in changes:
            if due is None:
                if number in made:
                    made[number].cancel()
                    wanted.pop(number, None)
                continue
            wanted[number] = due
            if number in made:
                timers.move(made[number], due)
            else:
                made[number] = timers.start(due, lambda now_ms, number=number: fired.append((now_ms, number)))  # type: ignore[misc]
        for now_ms in range(51):
            fire(timers, now_ms)
        assert sorted(fired) == sorted((due, number) for number, due in wanted.items())


class TestPeriodicTimers:
    def test_runs_begin_until_they_are_cancelled(self) -> None:
        timers, fired = Timers(), list[int]()

        async def begin(now_ms: int) -> None:
            fired.append(now_ms)
            await give_way()

        timer = timers.start_periodic(10, 5, begin)
        for now_ms in range(30):
            fire(timers, now_ms)
            if now_ms == 22:
                timer.cancel()
        assert fired == [10, 15, 20]
        assert timers.next_due() is None

    def test_other_timers_fire_between_steps(self) -> None:
        timers, fired = Timers(), list[object]()

        async def begin(now_ms: int) -> None:
            for step in range(3):
                fired.append((now_ms, step))
                await give_way()

        timers.start_periodic(10, 20, begin)
        timers.start(11, fired.append)
        for now_ms in range(10, 31):
            fire(timers, now_ms)
        assert fired == [(10, 0), 11, (10, 1), (10, 2), (30, 0)]

    def test_a_step_may_cancel_its_timer(self) -> None:
        timers = Timers()

        async def begin(now_ms: int) -> None:
            timer.cancel()

        timer = timers.start_periodic(10, 5, begin)
        fire(timers, 10)
        assert timers.next_due() is None

    def test_a_failure_ends_a_run_and_not_the_timer(self) -> None:
        timers, fired = Timers(), list[int]()

        async def begin(now_ms: int) -> None:
            fired.append(now_ms)
            await give_way()
            raise IndexError

        timers.start_periodic(10, 5, begin)
        fire(timers, 10)
        with pytest.raises(IndexError):
            fire(timers, 11)
        for now_ms in range(12, 16):
            fire(timers, now_ms)
        assert fired == [10, 15]


class TestEventQueue:
    def test_events_run_in_order_after_the_operation(self) -> None:
        events, seen = EventQueue(), []
        with events:
            events.reply(seen.append, 1)
            with events:
                events.reply(seen.append, 2)
            assert seen == []
        assert seen == [1, 2]

    def test_events_caused_by_events_run_after_them(self) -> None:
        events, seen = EventQueue(), []

        def first(_: None) -> None:
            with events:
                events.reply(seen.append, 3)
            seen.append(1)

        with events:
            events.reply(first, None)
            events.reply(seen.append, 2)
        assert seen == [1, 2, 3]

    def test_a_callback_for_later_is_an_event_of_its_own(self) -> None:
        events, seen = EventQueue(), []
        call = events.as_event(seen.append)
        call(1)
        assert seen == [1]
        with events:
            call(2)
            assert seen == [1]
        assert seen == [1, 2]

    def test_a_failing_event_does_not_lose_the_others(self) -> None:
        events, seen = EventQueue(), []

        def fail(_: None) -> None:
            raise RuntimeError("no")

        def run() -> None:
            with events:
                events.reply(fail, None)
                events.reply(seen.append, 1)

        with pytest.raises(RuntimeError, match="no"):
            run()
        assert seen == [1]
        with events:
            events.reply(seen.append, 2)
        assert seen == [1, 2]

    def test_successive_replies_are_delivered_together(self) -> None:
        batches: list[list[Call]] = []
        events, seen = EventQueue(lambda replies: batches.append(list(replies))), []
        with events:
            events.reply(seen.append, 1)
            events.as_event(seen.append)(2)
            events.reply(seen.append, 3)
            events.reply(seen.append, 4)
            events.as_event(seen.append)(5)
        assert seen == [1, 2, 5]
        [batch] = batches
        run_all(batch)
        assert seen == [1, 2, 5, 3, 4]
