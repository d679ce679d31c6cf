"""The table of a fetch's states: the head of the module, the code and what the code does agree."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import attrs

from pylogbroker.broker.fetch import operation
from pylogbroker.broker.fetch.operation import TRANSITIONS, FetchEvent, FetchState

ROW = re.compile(r"^    (?P<state>[A-Za-z_]*) +(?P<event>[A-Z_]+) +(?P<next>[A-Z_]+)  ", re.MULTILINE)
ENDS = {FetchState.ANSWERED, FetchState.ABANDONED}


def drawn() -> dict[FetchState, dict[FetchEvent, FetchState]]:
    """Return the transitions that the module's docstring draws."""
    transitions: dict[FetchState, dict[FetchEvent, FetchState]] = {state: {} for state in FetchState}
    states = set()
    for row in ROW.finditer(operation.__doc__ or ""):
        if row["state"]:
            states = set(FetchState) - ENDS if row["state"] == "any" else {FetchState[row["state"]]}
        for state in states:
            transitions[state][FetchEvent[row["event"]]] = FetchState[row["next"]]
    return transitions


def test_the_table_in_the_docstring_is_that_of_the_code() -> None:
    assert drawn() == {state: dict(events) for state, events in TRANSITIONS.items()}


def test_the_table_has_each_state_and_each_event() -> None:
    assert set(TRANSITIONS) == set(FetchState)
    assert {event for events in TRANSITIONS.values() for event in events} == set(FetchEvent)


def test_no_flag_is_beside_the_state() -> None:
    flags = [field.name for field in attrs.fields(operation.FetchOperation) if "bool" in str(field.type)]
    assert flags == []


def test_events_alone_change_the_state() -> None:
    tree = ast.parse(Path(operation.__file__).read_text())
    changing = {
        function.name
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute) and node.attr == "_state" and isinstance(node.ctx, ast.Store)
    }
    assert changing == {"_on"}
