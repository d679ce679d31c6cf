"""Contrast of the page's colours, by WCAG 2.2: 4.5 for text, 3 for lines and outlines."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

_TEXTS = (("text", "page"), ("text", "shade"), ("link", "page"), ("link", "shade"), ("danger", "shade"))
_LINES = (("line", "page"), ("link", "page"), ("link", "shade"), ("danger", "page"))
Colour = tuple[float, float, float]


def style() -> str:
    return files("pylogbroker.web").joinpath("static", "page.css").read_text("utf-8")


def schemes() -> dict[str, dict[str, Colour]]:
    """Return the colours of both schemes by the names of the variables."""
    light, dark = re.findall(r":root \{(.*?)\}", style())
    found = {
        name: dict(re.findall(r"--(\w+): #([0-9a-f]{6});", text)) for name, text in (("light", light), ("dark", dark))
    }
    assert found["light"].keys() == found["dark"].keys() == {"text", "page", "line", "link", "shade", "danger"}
    return {
        scheme: {name: (int(hexed[:2], 16), int(hexed[2:4], 16), int(hexed[4:], 16)) for name, hexed in colours.items()}
        for scheme, colours in found.items()
    }


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


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_placeholders(scheme: str) -> None:
    """Placeholders are text that shines through."""
    colours = schemes()[scheme]
    opacity = float(re.findall(r"::placeholder \{[^}]*opacity: ([0-9.]+);", style())[0])
    text, page = colours["text"], colours["page"]
    mixed = tuple(opacity * front + (1 - opacity) * back for front, back in zip(text, page, strict=True))
    assert contrast((mixed[0], mixed[1], mixed[2]), page) >= 4.5


def test_all_colours_are_variables() -> None:
    """Colours elsewhere would not be checked."""
    rules = re.sub(r":root \{.*?\}", "", style())
    assert re.findall(r"#[0-9a-f]{3,8}\b(?! \w)|rgb|hsl", rules) == []
