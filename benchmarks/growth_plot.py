"""Plot of how start and memory grow with the number of partitions, as SVG."""

import math
from collections.abc import Callable, Iterator, Sequence
from xml.sax.saxutils import escape

import attrs

WIDTH, HEIGHT = 320, 220
MARGIN_LEFT, MARGIN_RIGHT, MARGIN_TOP, MARGIN_BOTTOM = 60, 40, 40, 50
TICKS = (1, 2, 5)


@attrs.frozen
class Size:
    """A broker's start and memory with so many partitions."""

    partitions: int
    start_seconds: float
    resident_megabytes: float


def draw(sizes: Sequence[Size], caption: str) -> str:
    """Return two diagrams with logarithmic axes."""
    panels = [
        ("start, s", lambda size: size.start_seconds),
        ("resident memory, MB", lambda size: size.resident_megabytes),
    ]
    column, height = MARGIN_LEFT + WIDTH + MARGIN_RIGHT, HEIGHT + MARGIN_TOP + MARGIN_BOTTOM
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {len(panels) * column} {height}" '
        'font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for number, (title, value) in enumerate(panels):
        lines.append(f'<g transform="translate({number * column + MARGIN_LEFT} {MARGIN_TOP})">')
        lines += _panel(title, sizes, value)
        lines.append("</g>")
    lines.append(f'<text x="{MARGIN_LEFT}" y="{height - 8}" fill="#666">{escape(caption)}</text>')
    return "\n".join([*lines, "</svg>\n"])


def _panel(title: str, sizes: Sequence[Size], value: Callable[[Size], float]) -> Iterator[str]:
    counts, values = [size.partitions for size in sizes], [value(size) for size in sizes]
    across = _axis(min(counts), max(counts), WIDTH)
    upwards = _axis(min(values) / 1.2, max(values) * 1.2, HEIGHT)
    yield f'<text y="-14" font-size="14" font-weight="bold">{title}</text>'
    yield f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fafafa" stroke="#999"/>'
    for tick in _ticks(min(values) / 1.2, max(values) * 1.2):
        y = HEIGHT - upwards(tick)
        yield f'<path d="M0 {y:.1f}H{WIDTH}" stroke="#ddd"/>'
        yield f'<text x="-8" y="{y + 4:.1f}" text-anchor="end">{tick:g}</text>'
    for count in counts:
        yield f'<text x="{across(count):.1f}" y="{HEIGHT + 18}" text-anchor="middle">{count:,}</text>'
    places = [(across(count), HEIGHT - upwards(each)) for count, each in zip(counts, values, strict=True)]
    line = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
    yield f'<path d="M{line}" fill="none" stroke="#345" stroke-width="2"/>'
    for (x, y), each in zip(places, values, strict=True):
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="#345"/>'
        yield f'<text x="{x:.1f}" y="{y - 8:.1f}" text-anchor="middle">{each:,.3g}</text>'


def _axis(least: float, most: float, length: float) -> Callable[[float], float]:
    """Return the place of a value on a logarithmic axis."""
    span = math.log(most / least) or 1.0
    return lambda value: length * math.log(value / least) / span


def _ticks(least: float, most: float) -> Iterator[float]:
    for exponent in range(math.floor(math.log10(least)), math.ceil(math.log10(most)) + 1):
        yield from (tick for step in TICKS if least <= (tick := step * 10.0**exponent) <= most)
