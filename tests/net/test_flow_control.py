"""The table of flow control in its docstring is that of the code."""

from __future__ import annotations

import re

from pylogbroker.net import flow_control
from pylogbroker.net.flow_control import TRANSITIONS, FlowEvent, FlowState

ROW = re.compile(r"^    (?P<state>\S.*?|) {2,}(?P<event>[A-Z]+) {2,}(?P<next>[A-Z_]+)(  |$)", re.MULTILINE)


def drawn() -> dict[FlowState, dict[FlowEvent, FlowState]]:
    """Return the transitions that the module's docstring draws."""
    transitions: dict[FlowState, dict[FlowEvent, FlowState]] = {state: {} for state in FlowState}
    states: list[FlowState] = []
    for row in ROW.finditer(flow_control.__doc__ or ""):
        if row["state"] == "these five":
            states = [state for state in FlowState if state not in (FlowState.FINISHING, FlowState.CLOSED)]
        elif row["state"] == "all but CLOSED":
            states = [state for state in FlowState if state is not FlowState.CLOSED]
        elif row["state"]:
            states = [FlowState[row["state"]]]
        for state in states:
            transitions[state][FlowEvent[row["event"]]] = FlowState[row["next"]]
    return transitions


def test_the_table_in_the_docstring_is_that_of_the_code() -> None:
    assert drawn() == {state: dict(events) for state, events in TRANSITIONS.items()}


def test_each_event_is_in_the_table() -> None:
    assert {event for events in TRANSITIONS.values() for event in events} == set(FlowEvent)
