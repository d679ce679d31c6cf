"""Contrast of the page's colours, by WCAG 2.2: 4.5 for text, 3 for lines and outlines."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

_TEXTS = (
    *((front, back) for front in ("text", "soft", "link") for back in ("page", "side", "raised", "hover")),
    *((front, "page") for front in ("ok", "warn", "bad", "json-name", "json-text", "json-number", "json-word")),
    *(("ok", "ok-bg"), ("warn", "warn-bg"), ("bad", "bad-bg"), ("text", "chosen"), ("on-fill", "fill")),
    *(("text", "ok-bg"), ("text", "warn-bg"), ("text", "bad-bg"), ("on-fill", "bad-fill"), ("page", "text")),
)
_LINES = (("edge", "page"), ("in", "page"), ("out", "page"), ("link", "page"), ("fill", "page"))
Colour = tuple[float, float, float]


def style() -> str:
    return files("pylogbroker.web").joinpath("static", "ui.css").read_text("utf-8")


def schemes() -> dict[str, dict[str, Colour]]:
    """Return the colours of both schemes by the names of the variables."""
    declared = re.findall(r"--([a-z-]+): (?:light-dark\()?#([0-9a-f]{6})(?:, #([0-9a-f]{6})\))?;", style())
    pairs = {name: (light, dark or light) for name, light, dark in declared}
    return {
        scheme: {name: parsed(pair[index]) for name, pair in pairs.items()}
        for index, scheme in enumerate(("light", "dark"))
    }


def parsed(hexed: str) -> Colour:
    return int(hexed[:2], 16), int(hexed[2:4], 16), int(hexed[4:], 16)


def luminance(colour: Colour) -> float:
    parts = [each / 255 for each in colour]
    red, green, blue = (each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: Colour, other: Colour) -> float:
    darker, lighter = sorted(map(luminance, (one, other)))
    return (lighter + 0.05) / (darker + 0.05)


def test_the_ratio_is_that_of_the_definition() -> None:
    assert contrast((0, 0, 0), (255, 255, 255)) == pytest.approx(21)
    assert contrast((119, 119, 119), (255, 255, 255)) == pytest.approx(4.48, abs=0.005)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours(scheme: str) -> None:
    colours = schemes()[scheme]
    for pairs, least in ((_TEXTS, 4.5), (_LINES, 3.0)):
        for front, back in pairs:
            assert contrast(colours[front], colours[back]) >= least, f"{front} on {back}"


def test_all_colours_are_variables() -> None:
    """Colours elsewhere would not be checked: only shadows and marks have some."""
    rules = re.sub(r":root \{.*?\}", "", style(), flags=re.DOTALL)
    rules = re.sub(r"rgb\(0 0 0 / \.\d+\)|mark \{[^}]*\}", "", rules)
    assert re.findall(r"#[0-9a-f]{3,8}\b(?! \w)|\brgb|hsl", rules) == []
