"""Options, tables and messages of the command; the package's docstring shows its uses."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import click
from rich.console import Console

from benchmarks.broker import show
from benchmarks.brokers import PROJECT
from benchmarks.errors import BenchmarkError
from benchmarks.machine import description, touch_memory
from benchmarks.processor import ratios
from benchmarks.processor.figures import LOSS_MAX, Figures, better, loss, losses
from benchmarks.processor.runs import checkout_of, measure
from benchmarks.processor.works import WORKS

TRIES_MAX = 3
HERE = "here"
COMMAND = "python -m benchmarks.processor"

ByWork = Mapping[str, Figures]
Measure = Callable[[Sequence[str]], ByWork]


@click.command()
@click.argument("works", metavar="[WORK]...", nargs=-1, type=click.Choice(list(WORKS)))
@click.option(
    "--seconds",
    default=6.0,
    show_default=True,
    type=click.FloatRange(min=0, min_open=True),
    help="Time for each work and side.",
)
@click.option("--against", metavar="COMMIT", help="Also measure this commit.")
@click.option("--check", is_flag=True, help=f"Fail if a ratio is more than {LOSS_MAX:.0%} above the recorded one.")
@click.option("--record", is_flag=True, help="Record the ratios of this machine.")
@click.option(
    "--directory",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Directory of the data; by default in /tmp.",
)
@click.option("--markdown", is_flag=True, help="Print the table as Markdown.")
def main(
    works: Sequence[str],
    seconds: float,
    against: str | None,
    check: bool,
    record: bool,
    directory: Path | None,
    markdown: bool,
) -> None:
    """Measure the processor time of the reactor thread for each request; without WORK, of all works."""
    if sum((against is not None, check, record)) > 1:
        raise click.UsageError("--against, --check and --record exclude each other: give one of them")
    names = selected(works)
    touch_memory()

    def measure_here(some: Sequence[str]) -> ByWork:
        return measure({HERE: PROJECT}, some, seconds, directory)[HERE]

    try:
        if against is not None:
            with checkout_of(against) as other:
                compare(measure({HERE: PROJECT, against: other}, names, seconds, directory), against, markdown)
            return
        machine = description()
        recorded = ratios.read(ratios.RECORD, machine)
        if check:
            check_works(names, recorded, measure_here, markdown)
            return
        figures = measure_here(names)
        show_figures(figures, recorded, markdown)
        if record:
            ratios.write(ratios.RECORD, machine, {name: found.ratio for name, found in figures.items()})
            click.echo(f"recorded in {ratios.RECORD}")
    except BenchmarkError as error:
        raise click.ClickException(str(error)) from None


def selected(works: Sequence[str]) -> list[str]:
    """Return the works in the order of the table; all of them if none is named."""
    return [name for name in WORKS if name in (works or WORKS)]


def check_works(names: Sequence[str], recorded: Mapping[str, float], measure_here: Measure, markdown: bool) -> None:
    """Compare with the record, and measure works with a loss again; raise BenchmarkError for a loss that stays."""
    missing = [name for name in names if name not in recorded]
    if missing:
        click.echo(
            f"no check of {', '.join(missing)}: {ratios.RECORD} has no ratio of this machine ({description()})."
            " Ratios of different machines differ by more than a loss. Use --record, or --against COMMIT."
        )
    known = [name for name in names if name in recorded]
    if not known:
        return
    figures = dict(measure_here(known))
    tries = 1
    while (lost := losses(figures, recorded)) and tries < TRIES_MAX:
        tries += 1
        figures = better(figures, measure_here(lost))
    show_figures(figures, recorded, markdown)
    if lost:
        raise BenchmarkError("\n".join(_loss_text(name, figures[name], recorded[name], tries) for name in lost))


def _loss_text(name: str, figures: Figures, recorded: float, tries: int) -> str:
    return (
        f"{name} takes {figures.ratio:.2f} times the floor ({figures.lowest:.2f} us, floor {figures.floor:.2f} us),"
        f" recorded: {recorded:.2f}. That is {loss(figures.ratio, recorded):.1%} more, after {tries} tries; allowed:"
        f" {LOSS_MAX:.0%}. `{COMMAND} {name} --against COMMIT` finds the commit; if the loss is intended,"
        f" `{COMMAND} {name} --record`."
    )


def show_figures(figures: ByWork, recorded: Mapping[str, float], markdown: bool) -> None:
    """Print the figures of this checkout, beside the recorded ratios and the loss."""
    rows = []
    for name, found in figures.items():
        before = recorded.get(name)
        comparison = "" if before is None else f"{before:.2f} ({loss(found.ratio, before):+.1%})"
        numbers = (found.lowest, found.quartile, found.floor, found.ratio)
        rows.append([name, "us", *(f"{number:.2f}" for number in numbers), comparison])
    show(Console(), ["work", "unit", "lowest", "quartile", "floor", "ratio", "recorded"], rows, markdown)


def compare(sides: Mapping[str, ByWork], against: str, markdown: bool) -> None:
    """Print the ratios of this checkout and of a commit to the floor, and how many times better this checkout is."""
    rows = []
    for name, ours in sides[HERE].items():
        theirs = sides[against][name]
        numbers = (ours.lowest, theirs.lowest, ours.ratio, theirs.ratio)
        rows.append([name, "us", *(f"{number:.2f}" for number in numbers), f"{theirs.ratio / ours.ratio:.3f} x"])
    commit = against[:12]
    show(Console(), ["work", "unit", HERE, commit, "ratio", f"ratio of {commit}", "better"], rows, markdown)
