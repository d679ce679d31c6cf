"""The terminal recording of README: a picture that moves for about 20 seconds and shows README's commands."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from tests.web.recording import NO_BREAK, RECORDING, ROOT, START, Screen, as_svg, readme_commands

_BYTES_MAX = 30_000


def shown(svg: str) -> list[str]:
    """Return the texts of a recording; raise an error if it is not well-formed."""
    texts = ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    return ["".join(text.itertext()).replace(NO_BREAK, " ") for text in texts]


def test_readme_shows_the_recording_of_its_commands() -> None:
    assert "](docs/terminal.svg)" in (ROOT / "README.md").read_text()
    commands = readme_commands()
    assert len(commands) > 5
    assert not {START, *commands} - set(shown(RECORDING.read_text())), "record again: python -m tests.web.recording"


def test_the_recording_is_small_and_lasts_twenty_seconds() -> None:
    svg = RECORDING.read_text()
    durations = [float(found) for found in re.findall(r"animation:([\d.]+)s ", svg)]
    assert durations
    assert all(15 <= seconds <= 25 for seconds in durations)
    assert len(svg) < _BYTES_MAX
    assert not re.search(r"<script|\bon\w+=|@import|url\(|href", svg)  # a picture of a page loads and runs nothing
    named = set(re.findall(r"animation-name:(\w+)", svg))
    assert named == set(re.findall(r"@keyframes (\w+)", svg))


def test_texts_are_escaped_and_keep_their_spaces() -> None:
    screen = Screen()
    screen.type("echo '<b> & c'")
    screen.show("a   <b>\n\x1b[1mbold\x1b[0m\n")
    assert shown(as_svg(screen))[1:] == ["$", "echo '<b> & c'", "a   <b>", "bold"]


def test_a_recording_that_is_too_long_is_an_error() -> None:
    screen = Screen()
    screen.show("\n" * 200)
    with pytest.raises(ValueError, match="show less"):
        as_svg(screen)


def test_output_scrolls_when_the_terminal_is_full() -> None:
    screen = Screen()
    screen.show("".join(f"{number}\n" for number in range(30)))
    assert re.search(r"@keyframes scroll\{0%\{transform:none\}2.50%\{transform:translateY\(-144px\)", as_svg(screen))
    assert shown(as_svg(screen))[-1] == "29"
