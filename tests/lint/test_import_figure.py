"""The figure of the imports: its order of the modules, and what it counts."""

from __future__ import annotations

from xml.etree import ElementTree

from tests.lint.import_figure import Layers, draw, ordered
from tests.lint.import_graph import Graph, components

CYCLE: Graph = {
    "p.top": {"p.hub"},
    "p.hub": {"p.a", "p.b"},
    "p.a": {"p.hub", "p.low"},
    "p.b": {"p.hub"},
    "p.low": set(),
}


def test_components_are_ordered_with_imported_ones_first() -> None:
    assert [sorted(each) for each in components(CYCLE)] == [["p.low"], ["p.a", "p.b", "p.hub"], ["p.top"]]


def test_two_cycles_that_are_joined_one_way_are_two_components() -> None:
    graph = {"a": {"b"}, "b": {"a", "c"}, "c": {"d"}, "d": {"c"}}
    assert [sorted(each) for each in components(graph)] == [["c", "d"], ["a", "b"]]


def test_importers_come_first_and_the_most_imported_module_of_a_cycle() -> None:
    assert ordered(CYCLE, CYCLE) == ["p.top", "p.hub", "p.a", "p.b", "p.low"]


def test_a_cycle_of_packages_is_against_the_layers_once() -> None:
    graph = {"p.broker.api": {"p.net.x"}, "p.net.x": {"p.broker.hub"}, "p.broker.hub": {"p.broker.api"}}
    layers = Layers.of(graph)
    assert list(layers.bands) == ["broker, net"]
    assert set(layers.in_cycles) == set(graph)
    assert len(layers.cyclic_imports()) == 3
    assert len(layers.against()) == 1


def test_packages_may_import_each_other_where_modules_do_not() -> None:
    layers = Layers.of(
        {"p.client.a": {"p.legacy07.client.b"}, "p.legacy07.client.b": {"p.client.c"}, "p.client.c": set()}
    )
    assert layers.bands == {"client, legacy07.client": ["p.client.a", "p.legacy07.client.b", "p.client.c"]}
    assert not layers.against()


def test_imports_of_lower_packages_are_no_cycles() -> None:
    layers = Layers.of({"p": set(), "p.net.a": {"p.wire.b"}, "p.wire.b": set(), "p.wire.c": {"p.wire.b"}})
    assert layers.bands == {"net": ["p.net.a"], "pylogbroker": ["p"], "wire": ["p.wire.c", "p.wire.b"]}
    assert not layers.in_cycles
    assert not layers.against()


def test_a_panel_names_packages_and_counts() -> None:
    graph = {"p.net.a": {"p.wire.b"}, "p.wire.b": {"p.wire.c"}, "p.wire.c": {"p.wire.b"}}
    figure = ElementTree.fromstring(draw([("Before", Layers.of(graph))]))
    assert [element.text for element in figure.iter("{http://www.w3.org/2000/svg}text")] == [
        "Before",
        "3 modules, 3 imports",
        "2 modules in cycles, 1 imports against the layers",
        "net 1",
        "wire 2",
    ]
