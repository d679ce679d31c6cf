"""The plot of the growth with partitions: points where the figures say, with their labels."""

from __future__ import annotations

from xml.etree import ElementTree

from benchmarks.growth_plot import HEIGHT, WIDTH, Size, draw

SIZES = [Size(100, 0.5, 60.0), Size(1_000, 0.5, 66.0), Size(10_000, 5.0, 600.0)]
SVG = "{http://www.w3.org/2000/svg}"


def test_points_lie_on_logarithmic_axes() -> None:
    start, memory = ElementTree.fromstring(draw(SIZES, "a machine")).findall(f"{SVG}g")
    for panel in (start, memory):
        points = [(float(each.attrib["cx"]), float(each.attrib["cy"])) for each in panel.findall(f"{SVG}circle")]
        assert [x for x, _ in points] == [0.0, WIDTH / 2, WIDTH]
        assert all(0 < y < HEIGHT for _, y in points)
        assert points[2][1] < points[1][1] <= points[0][1]
    heights = [float(each.attrib["cy"]) for each in start.findall(f"{SVG}circle")]
    assert heights[0] == heights[1]


def test_each_point_has_its_figure() -> None:
    labels = [text.text for text in ElementTree.fromstring(draw(SIZES, "a machine")).iter(f"{SVG}text")]
    for label in ("0.5", "5", "60", "66", "600", "100", "1,000", "10,000", "a machine"):
        assert label in labels
