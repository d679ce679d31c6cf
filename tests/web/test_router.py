"""The router: values by their types, parameters of functions, and paths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, Literal, NotRequired, TypedDict, Unpack

import pytest

from pylogbroker.web.router import BadRequest, HttpRoute, HttpRouter, MethodNotAllowed, NoRoute
from pylogbroker.web.router.parameters import Parameters
from pylogbroker.web.router.values import BadValue, Capped, Lines, OneOf, Trimmed, from_json, from_text, schema


class Colour(StrEnum):
    RED = "red"


class Point(TypedDict):
    x: int
    name: Annotated[str, "of the point"]
    note: NotRequired[str]


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (str, "a", "a"),
        (int, 2**63, 2**63),
        (float, 1, 1.0),
        (bool, True, True),
        (int | None, None, None),
        (str | int, 5, 5),
        (Colour, "red", Colour.RED),
        (Literal["a", "b"], "b", "b"),
        (Sequence[int], [1, 2], [1, 2]),
        (Sequence[tuple[str, int]], [["a", 1]], [("a", 1)]),
        (Mapping[str, bool], {"a": False}, {"a": False}),
        (Annotated[int, Capped(5)], 9, 5),
        (Annotated[int, Capped(5)] | None, 9, 5),
        (Annotated[str, Trimmed], " a ", "a"),
        (Any, [{}], [{}]),
    ],
)
def test_values_of_json(kind: Any, value: Any, expected: Any) -> None:
    found = from_json(kind, value, "it")
    assert (found, type(found)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("kind", "value", "reason"),
    [
        (str, 1, "it must be a text, not 1"),
        (int, True, "it must be a number without a fraction, not true"),
        (int, 1.5, "it must be a number without a fraction, not 1.5"),
        (float, "1", 'it must be a number, not "1"'),
        (str | None, [], r"it must be a text or null, not \[\]"),
        (Literal["a", "b"], "c", 'it must be one of a, b, not "c"'),
        (Annotated[str, OneOf(("a", "b"))], "c", 'it must be one of a, b, not "c"'),
        (Annotated[int, Capped()], -1, "it must be a number of at least 0, not -1"),
        (Sequence[str], ["a", 1], r"it\[1\] must be a text, not 1"),
        (Sequence[tuple[str, str]], [["a"]], r"it\[0\] must be a list of a text and a text, not"),
        (Mapping[str, str], {"a": None}, r"it\.a must be a text, not null"),
        (str, "x" * 9, None),
        (int, "x" * 100, "^.{0,120}$"),
    ],
)
def test_wrong_values_of_json(kind: Any, value: Any, reason: str | None) -> None:
    if reason is None:
        assert from_json(kind, value, "it") == value
        return
    with pytest.raises(BadValue, match=reason):
        from_json(kind, value, "it")


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        (str, " a ", " a "),
        (int, "-5", -5),
        (Annotated[int | None, Capped(7)], "9", 7),
        (float, "1e3", 1000.0),
        (bool, "true", True),
        (bool, "0", False),
        (Colour, "red", Colour.RED),
        (Annotated[Mapping[str, str], Lines("=")], "a = b\n\nc=d=e", {"a": "b", "c": "d=e"}),
        (Annotated[Sequence[tuple[str, str]], Lines(":")], "a: 1\na: 2", [("a", "1"), ("a", "2")]),
    ],
)
def test_values_of_text(kind: Any, text: str, expected: Any) -> None:
    found = from_text(kind, text, "it")
    assert (found, type(found)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (int, "٣"),
        (int, "1.0"),
        (int, "9" * 30),
        (float, "nan"),
        (bool, "yes"),
        (Colour, "blue"),
        (Annotated[Mapping[str, str], Lines("=")], "a"),
        (Annotated[Mapping[str, str], Lines("=")], "a=1\na=2"),
    ],
)
def test_wrong_values_of_text(kind: Any, text: str) -> None:
    with pytest.raises(BadValue, match=r"^it"):
        from_text(kind, text, "it")


def test_schemas() -> None:
    named: dict[str, Any] = {}
    assert schema(Sequence[Point] | None, named) == {
        "anyOf": [{"type": "array", "items": {"$ref": "#/components/schemas/Point"}}, {"type": "null"}]
    }
    assert named["Point"] == {
        "type": "object",
        "properties": {
            "x": {"type": "integer"},
            "name": {"type": "string", "description": "of the point"},
            "note": {"type": "string"},
        },
        "required": ["x", "name"],
        "additionalProperties": False,
    }
    assert schema(Annotated[int, Capped()] | None, named) == {
        "anyOf": [{"type": "integer", "minimum": 0}, {"type": "null"}]
    }


class Options(TypedDict, total=False):
    colour: Colour
    size: int | None


def paint(visitor: object, name: str, times: int = 1, **options: Unpack[Options]) -> None:
    """Paint a thing.

    More about it.
    """


def list_things(visitor: object) -> None:
    """List things."""


PAINT = Parameters(paint, {"visitor"})


def test_parameters_are_those_of_the_function() -> None:
    assert PAINT.read({"name": "door"}, {}) == {"name": "door"}
    assert PAINT.read({"times": "2"}, {"name": "door", "size": None}) == {"name": "door", "times": 2, "size": None}
    assert PAINT.read({"name": "door", "times": "", "colour": " "}, {}) == {"name": "door"}


@pytest.mark.parametrize(
    ("texts", "members", "reason"),
    [
        ({}, {}, "^name is missing$"),
        ({"naem": "x"}, {}, "there is no parameter 'naem': did you mean 'name'?"),
        ({"q": "x"}, {}, "there is no parameter 'q'; there are: name, times, colour, size"),
        ({"visitor": "x", "name": "x"}, {}, "there is no parameter 'visitor'"),
        ({"name": "x"}, {"name": "y"}, "name is given twice"),
        ({}, {"name": "x", "times": "2"}, 'times must be a number without a fraction, not "2"'),
    ],
)
def test_wrong_parameters(texts: dict[str, str], members: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadRequest, match=reason):
        PAINT.read(texts, members)


ROUTER = HttpRouter(
    [
        HttpRoute("GET", "/things/{name}", paint),
        HttpRoute("PUT", "/things/{name}", paint),
        HttpRoute("GET", "/things/all", list_things),
        HttpRoute("POST", "/things/{name}/paint", paint),
    ]
)


def test_paths() -> None:
    route, parts = ROUTER.find("GET", "/things/a%2Fb%20c")
    assert (route.handle, parts, route.summary) == (paint, {"name": "a/b c"}, "Paint a thing.")
    assert ROUTER.find("HEAD", "/things/all")[0].handle is list_things
    assert ROUTER.find("POST", "/things/all/paint")[1] == {"name": "all"}


def test_paths_that_are_not_there() -> None:
    with pytest.raises(NoRoute, match=r"there is no /thigns/all: did you mean /things/all\?"):
        ROUTER.find("GET", "/thigns/all")
    with pytest.raises(NoRoute, match=r"there is no /things; there are /things/all, /things/\{name\}"):
        ROUTER.find("GET", "/things")
    with pytest.raises(NoRoute):
        ROUTER.find("GET", "/things//paint")
    with pytest.raises(MethodNotAllowed, match="/things/x has no DELETE: it has GET, HEAD, PUT") as error:
        ROUTER.find("DELETE", "/things/x")
    assert error.value.allowed == ["GET", "HEAD", "PUT"]
