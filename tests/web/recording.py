"""The terminal recording that README shows: its commands, on a broker of their own, as an animated SVG.

python -m tests.web.recording

The commands and their output are real. The pace is not: a command appears as fast as somebody types, its output after
it, and the whole takes 20 seconds. The animation is CSS, which runs in a picture of a page, too.
"""

from __future__ import annotations

import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

import attrs
import click
from rich.text import Text

from tests.support.line_process import LineProcess

ROOT = Path(__file__).parents[2]
RECORDING = ROOT / "docs" / "terminal.svg"
ADDRESS = "127.0.0.1:9092"
"""The broker's address on the recording. The broker of the script has a port that is free."""
SECONDS = 20.0
START = "pylogbroker broker start -c etc/development.properties -d data &"
QUESTION = "[y/N]: "
NO_BREAK = "\N{NO-BREAK SPACE}"
"""Stands for a space, of which a picture shows only one where there are several."""

_COLUMNS, _ROWS = 100, 22
_CHARACTER, _LINE, _MARGIN, _BAR = 8.0, 18, 14, 30
_TYPED_PER_SECOND = 45
_THINKING, _READING_PER_LINE = 0.35, 0.11
_SECONDS_MAX = 60
_PROMPT = "$ "
_BACKGROUND = "#011627"
_STYLE = """
text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#d6deeb;white-space:pre}
.p{fill:#7fdbca}.c{fill:#fff}.b{font-weight:700;fill:#82aaff}.t{fill:#8a95a8}
.a{animation:20s step-end infinite both}
@media (prefers-reduced-motion:reduce){.a{animation:none}.k{visibility:hidden}}
"""


def readme_commands() -> list[str]:
    """Return the commands of README's section about the command-line tool."""
    section = (ROOT / "README.md").read_text().split("## The command-line tool\n")[1].split("\n## ")[0]
    return re.findall(r"^    (\S.*)$", section, re.MULTILINE)


def write_command(directory: Path) -> None:
    """Write the command `pylogbroker` of this checkout."""
    script = directory / "pylogbroker"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m pylogbroker.cli "$@"\n')
    script.chmod(0o755)


@attrs.frozen
class Piece:
    """Text that appears at one place of the terminal at one time."""

    second: float
    row: int
    column: int
    text: Text
    typed_until: float | None = None
    """When the last letter of a command has been typed."""


@attrs.define
class Screen:
    """Collects what a terminal shows, with times."""

    pieces: list[Piece] = attrs.field(factory=list)
    second: float = 0.5
    row: int = 0
    column: int = 0

    def type(self, command: str) -> None:
        """Let somebody type a command behind a prompt."""
        ends = self.second + len(command) / _TYPED_PER_SECOND
        text = Text.assemble((_PROMPT, "cyan"), (command, "white"))
        self.pieces.append(Piece(self.second, self.row, 0, text, ends))
        self.second = ends + _THINKING / 2
        self.row += 1

    def show(self, output: str) -> None:
        """Show output at once, and leave time to read it."""
        lines = output.replace("\r\n", "\n").split("\n")
        for number, line in enumerate(lines):
            text = Text.from_ansi(line)
            if text.plain.strip():
                self.pieces.append(Piece(self.second, self.row, self.column, text))
            self.column += len(text.plain)
            if number < len(lines) - 1:
                self.row, self.column = self.row + 1, 0
        self.second += _THINKING + _READING_PER_LINE * len(lines)


def record() -> Screen:
    """Run the commands on a broker of their own."""
    screen = Screen()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        write_command(directory)
        shutil.copytree(ROOT / "etc", directory / "etc")
        environment = {**os.environ, "PATH": f"{directory}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
        arguments = [*START.removesuffix(" &").split()[1:], "--listener", "PLAINTEXT://127.0.0.1:0"]
        with LineProcess([directory / "pylogbroker", *arguments], cwd=directory, environment=environment) as broker:
            found = broker.expect(r"listening on PLAINTEXT://(127\.0\.0\.1:[1-9]\d*)", 60)
            address = found[1]
            screen.type(START)
            screen.show(found[0].replace(address, ADDRESS) + "\n")
            for command in readme_commands():
                screen.type(command)
                exported = re.fullmatch(r"export (\w+)=(\S+)", command)
                if exported:
                    environment[exported[1]] = exported[2].replace(ADDRESS, address)
                    continue
                for output in _outputs(command, directory, environment):
                    screen.show(output.replace(address, ADDRESS))
    return screen


def _outputs(command: str, directory: Path, environment: dict[str, str]) -> Iterator[str]:
    """Run a command on a terminal, and say yes to a question; yield the output before and after that."""
    leader, follower = pty.openpty()
    environment = {**environment, "COLUMNS": str(_COLUMNS), "TERM": "xterm-256color"}
    limited = ["timeout", "--foreground", str(_SECONDS_MAX), "sh", "-c", command]
    process = subprocess.Popen(
        limited, cwd=directory, env=environment, stdin=follower, stdout=follower, stderr=follower
    )
    os.close(follower)
    output = ""
    while True:
        try:
            output += os.read(leader, 65536).decode()
        except OSError:  # how a terminal says that nobody has it open any more
            break
        if output.endswith(QUESTION):
            yield output
            output = ""
            os.write(leader, b"y\n")
    os.close(leader)
    if process.wait(_SECONDS_MAX):
        raise RuntimeError(f"{command} has failed: {output}")
    yield output


def as_svg(screen: Screen) -> str:
    """Draw the screen; raise ValueError if it shows more than fits into the time."""
    if screen.second > SECONDS - 1:
        raise ValueError(f"the recording takes {screen.second:.1f} s: show less, or type faster")
    keyframes: list[str] = []
    drawn: list[str] = []
    for second in sorted({piece.second for piece in screen.pieces}):
        name = f"s{len(keyframes)}"
        keyframes.append(f"@keyframes {name}{{0%{{visibility:hidden}}{_percent(second)},to{{visibility:visible}}}}")
        group = [piece for piece in screen.pieces if piece.second == second]
        texts = "".join(line for piece in group for line in _texts(piece))
        drawn.append(f'<g class="a" style="animation-name:{name}">{texts}</g>')
    for number, piece in enumerate(each for each in screen.pieces if each.typed_until is not None):
        keyframes.append(_typing(f"k{number}", piece))
        x, y = len(_PROMPT) * _CHARACTER, piece.row * _LINE
        shape = f"<path d='M{x:g} {y}h{_COLUMNS * _CHARACTER:g}v{_LINE}H{x:g}z' fill='{_BACKGROUND}'/>"
        cursor = f"<path d='M{x:g} {y + 2}h8v14h-8z' fill='#7fdbca'/>"
        drawn.append(f'<g class="a k" style="animation-name:k{number}">{shape}{cursor}</g>')
    last = max(0, screen.row - _ROWS)
    keyframes.append(f"@keyframes scroll{{{''.join(_scrolls(screen.pieces))}}}")
    width, height = _COLUMNS * _CHARACTER + 2 * _MARGIN, _ROWS * _LINE + _BAR + _MARGIN
    title = "A terminal: a broker starts, and the command pylogbroker makes a topic, writes, reads, and resets a group"
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height}" width="{width:g}" role="img">',
            f"<title>{title}</title>",
            f"<style>{_STYLE}",
            *keyframes,
            "</style>",
            f'<rect width="100%" height="100%" rx="8" fill="{_BACKGROUND}"/>',
            f'<text class="t" x="{width / 2:g}" y="20" text-anchor="middle">pylogbroker</text>',
            f'<svg x="{_MARGIN}" y="{_BAR}" width="{width - _MARGIN:g}" height="{_ROWS * _LINE}">',
            f'<g class="a" style="animation-name:scroll" transform="translate(0 {-last * _LINE})">',
            *drawn,
            "</g></svg></svg>\n",
        )
    )


def _percent(second: float) -> str:
    return f"{100 * second / SECONDS:.2f}%"


def _texts(piece: Piece) -> Iterator[str]:
    """Draw a piece, in parts of the same style; its width does not depend on the font."""
    column, y = piece.column, (piece.row + 1) * _LINE - 5
    for part in piece.text.divide(sorted({end for span in piece.text.spans for end in (span.start, span.end)})):
        text = part.plain
        styles = " ".join(str(span.style) for span in part.spans)
        kind = "p" if "cyan" in styles else "c" if "white" in styles else "b" if "bold" in styles else ""
        stripped = text.strip(" ")
        if stripped:
            start = column + len(text) - len(text.lstrip(" "))
            style = f' class="{kind}"' if kind else ""
            length = f' textLength="{len(stripped) * _CHARACTER:g}"'
            escaped = escape(stripped, quote=False).replace(" ", NO_BREAK)
            yield f'<text{style} x="{start * _CHARACTER:g}" y="{y}"{length}>{escaped}</text>'
        column += len(text)


def _typing(name: str, piece: Piece) -> str:
    """Move a cover, with the cursor at its left edge, over a command."""
    assert piece.typed_until is not None
    letters = len(piece.text.plain) - len(_PROMPT)
    begin, end = _percent(piece.second), _percent(piece.typed_until)
    moved = f"transform:translateX({letters * _CHARACTER:g}px)"
    return (
        f"@keyframes {name}{{0%{{visibility:hidden;transform:none}}"
        f"{begin}{{visibility:visible;transform:none;animation-timing-function:steps({letters})}}"
        f"{end}{{visibility:visible;{moved}}}"
        f"{_percent(piece.typed_until + _THINKING / 2)},to{{visibility:hidden;{moved}}}}}"
    )


def _scrolls(pieces: Sequence[Piece]) -> Iterator[str]:
    yield "0%{transform:none}"
    bottom = _ROWS
    for second in sorted({piece.second for piece in pieces}):
        lowest = max(piece.row for piece in pieces if piece.second == second) + 1
        if lowest > bottom:
            bottom = lowest
            yield f"{_percent(second)}{{transform:translateY({(_ROWS - bottom) * _LINE}px)}}"
    yield f"to{{transform:translateY({(_ROWS - bottom) * _LINE}px)}}"


@click.command()
def main() -> None:
    """Record."""
    RECORDING.write_text(as_svg(record()))


if __name__ == "__main__":
    main()
