"""`python -m tests.lint.import_figure 27ccfa9 > docs/imports.svg`: draw the imports of a commit beside today's.

Rows are the modules that import, columns the modules that are imported, both from the top layer to the bottom one.
A dot above the diagonal is an import of a lower module.  A dot below it goes against the layers and closes a cycle.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from itertools import chain, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import attrs

from tests.lint.import_graph import Graph, components, import_graph

ROOT = Path(__file__).parents[2]
PACKAGE = "pylogbroker"
SPLIT = "legacy07"  # has parts of several layers
MODULE_PX = 1.2
LABEL_PX = 13
MARGIN_PX = 165
TITLE_PX = 62


@attrs.frozen
class Layers:
    """The modules from the top layer to the bottom one, and the imports that do not fit this order."""

    graph: Graph
    bands: dict[str, list[str]]
    """Modules by package; packages that import each other are one band."""

    @classmethod
    def of(cls, graph: Graph) -> Layers:
        packages: Graph = defaultdict(set)
        members = defaultdict(list)
        for module in sorted(graph):
            members[_package(module)].append(module)
            packages[_package(module)] |= {_package(imported) for imported in graph[module]}
        bands = {}
        for component in _by_level(packages):
            modules = [module for package in component for module in members[package]]
            bands[", ".join(sorted(component))] = ordered(modules, graph)
        return cls(graph, bands)

    @property
    def order(self) -> dict[str, int]:
        return {module: place for place, module in enumerate(chain.from_iterable(self.bands.values()))}

    @property
    def in_cycles(self) -> dict[str, int]:
        """The modules that import each other, with the number of their cycle."""
        cycles = (each for each in components(self.graph) if len(each) > 1)
        return {module: number for number, cycle in enumerate(cycles) for module in cycle}

    def imports(self) -> Iterator[tuple[str, str]]:
        return ((module, imported) for module in self.graph for imported in sorted(self.graph[module]))

    def cyclic_imports(self) -> list[tuple[str, str]]:
        of = self.in_cycles
        return [(one, other) for one, other in self.imports() if one in of and of[one] == of.get(other)]

    def against(self) -> list[tuple[str, str]]:
        """Imports of a module above the one that imports it."""
        order = self.order
        return [(module, imported) for module, imported in self.imports() if order[module] > order[imported]]


def ordered(modules: Collection[str], graph: Graph) -> list[str]:
    """Return importers before the modules that they import; in a cycle, the most imported module comes first."""
    inner = {module: graph[module] & set(modules) for module in modules}
    found = []
    for component in _by_level(inner):
        if len(component) > 1:
            users = {module: sum(module in inner[other] for other in component) for module in component}
            hub = max(sorted(users), key=lambda module: users[module])
            component = [hub, *ordered([module for module in component if module != hub], graph)]
        found += component
    return found


def _by_level(graph: Graph) -> list[list[str]]:
    """Return the components, importers first: by the longest chain of imports below them."""
    level: dict[str, int] = {}
    found = []
    for component in components(graph):  # imported ones first
        below = {level[imported] for module in component for imported in graph[module] if imported in level}
        level |= dict.fromkeys(component, max(below, default=-1) + 1)
        found.append(sorted(component))
    return sorted(found, key=lambda component: (-level[component[0]], component))


def _package(module: str) -> str:
    parts = module.split(".")[1:]
    return ".".join(parts[: 1 + (parts[0] == SPLIT)]) if parts else PACKAGE


def draw(panels: Sequence[tuple[str, Layers]]) -> str:
    """Return the figure as SVG."""
    sizes = [MODULE_PX * len(layers.graph) for _, layers in panels]
    width, height = sum(sizes) + MARGIN_PX * len(panels) + 10, max(sizes) + TITLE_PX + 10
    shapes = []
    left = 0.0
    for (title, layers), size in zip(panels, sizes, strict=True):
        left += MARGIN_PX
        shapes += [f'<g transform="translate({left:.0f} {TITLE_PX})">', *_panel(title, layers, size), "</g>"]
        left += size
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" font-family="sans-serif">',
            '<rect width="100%" height="100%" fill="white"/>',
            *shapes,
            "</svg>\n",
        ]
    )


def _panel(title: str, layers: Layers, size: float) -> Iterator[str]:
    cyclic = layers.cyclic_imports()
    counts = [
        f"{len(layers.graph)} modules, {sum(1 for _ in layers.imports())} imports",
        f"{len(layers.in_cycles)} modules in cycles, {len(layers.against())} imports against the layers",
    ]
    yield f'<text y="-42" font-size="18" font-weight="bold">{title}</text>'
    yield from (f'<text y="{16 * row - 24}" font-size="14">{count}</text>' for row, count in enumerate(counts))
    yield f'<rect width="{size:.0f}" height="{size:.0f}" fill="#fafafa" stroke="#999"/>'
    middles, start = [], 0
    for modules in layers.bands.values():
        at, side = start * MODULE_PX, len(modules) * MODULE_PX
        yield f'<rect x="{at:.1f}" y="{at:.1f}" width="{side:.1f}" height="{side:.1f}" fill="#dde8f5"/>'
        middles.append(at + side / 2)
        start += len(modules)
    for (band, modules), middle, y in zip(layers.bands.items(), middles, _spread(middles, size), strict=True):
        yield f'<path d="M-12 {y:.1f}L0 {middle:.1f}" stroke="#999"/>'
        yield f'<text x="-15" y="{y + 4:.1f}" font-size="12" text-anchor="end">{band} {len(modules)}</text>'
    order, red = layers.order, set(cyclic)
    for colour, dot, imports in (
        ("#345", 1.4, [each for each in layers.imports() if each not in red]),
        ("#d00", 3, cyclic),
    ):
        steps = "".join(f"M{order[imported]} {order[module]}h.1" for module, imported in imports)
        yield (
            f'<path transform="scale({MODULE_PX}) translate(.5 .5)" fill="none" stroke="{colour}" '
            f'stroke-width="{dot}" stroke-linecap="round" d="{steps}"/>'
        )


def _spread(wanted: Sequence[float], size: float) -> list[float]:
    """Return places at least a label apart, near the wanted ones."""
    places = list(wanted)
    for before, after in pairwise(range(len(places))):
        places[after] = max(places[after], places[before] + LABEL_PX)
    places[-1] = min(places[-1], size)
    for before, after in reversed(list(pairwise(range(len(places))))):
        places[before] = min(places[before], places[after] - LABEL_PX)
    return places


def _graph_at(revision: str) -> Graph:
    archive = subprocess.run(["git", "archive", revision, PACKAGE], cwd=ROOT, check=True, capture_output=True).stdout
    with TemporaryDirectory() as directory, tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(directory, filter="data")
        return import_graph(Path(directory, PACKAGE))


def main(revision: str) -> None:
    before, after = Layers.of(_graph_at(revision)), Layers.of(import_graph(ROOT / PACKAGE))
    print(draw([(f"Before ({revision})", before), ("After", after)]), end="")


if __name__ == "__main__":
    main(*sys.argv[1:])
