"""Comparison of processor times with recorded ones, and the record itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.errors import BenchmarkError
from benchmarks.processor import command_line, ratios
from benchmarks.processor.figures import Figures, better, losses, median_run
from benchmarks.processor.works import WORKS

MACHINE = '2 cores of "X", 4 GiB'


def ratio_of(ratio: float) -> Figures:
    return Figures(lowest=ratio * 10, quartile=ratio * 11, floor=10)


class Measurements:
    """Gives the figures of one measurement after the other, and keeps which works were measured."""

    def __init__(self, *ratios_of_measurements: dict[str, float]) -> None:
        self._rest = list(ratios_of_measurements)
        self.works: list[list[str]] = []

    def __call__(self, works: Sequence[str]) -> dict[str, Figures]:
        self.works.append(list(works))
        measured = self._rest.pop(0)
        return {name: ratio_of(measured[name]) for name in works}


def test_figures_are_the_lowest_samples() -> None:
    figures = Figures.of(broker=[9, 8, 5, 6, 7, 12, 11, 10], floor=[3, 2, 4])
    assert figures == Figures(lowest=5, quartile=7, floor=2)
    assert figures.ratio == 2.5


def test_figures_of_several_runs_are_those_with_the_median_ratio() -> None:
    ratios_of_runs = [{"a": 2.0, "b": 9.0}, {"a": 1.0, "b": 7.0}, {"a": 3.0, "b": 8.0}]
    runs = [{name: ratio_of(ratio) for name, ratio in run.items()} for run in ratios_of_runs]
    assert median_run(runs) == {"a": ratio_of(2.0), "b": ratio_of(8.0)}


def test_the_better_figures_have_the_lower_ratio() -> None:
    first = {"a": ratio_of(2), "b": ratio_of(2), "c": ratio_of(2)}
    assert better(first, {"a": ratio_of(1), "b": ratio_of(3)}) == {"a": ratio_of(1), "b": ratio_of(2), "c": ratio_of(2)}


def test_only_more_than_five_percent_above_the_record_is_a_loss() -> None:
    figures = {"same": ratio_of(2), "within": ratio_of(2.09), "lost": ratio_of(2.11), "new": ratio_of(9)}
    recorded = {"same": 2.0, "within": 2.0, "lost": 2.0, "not measured": 1.0}
    assert losses(figures, recorded) == ["lost"]


def test_works_are_measured_in_the_order_of_the_table() -> None:
    names = list(WORKS)
    assert command_line.selected([]) == names
    assert command_line.selected([names[3], names[1], names[3]]) == [names[1], names[3]]


def test_a_loss_that_disappears_passes(capsys: pytest.CaptureFixture[str]) -> None:
    measurements = Measurements({"a": 2, "b": 4}, {"b": 3.1})
    command_line.check_works(["a", "b"], {"a": 2, "b": 3}, measurements, markdown=True)
    assert measurements.works == [["a", "b"], ["b"]]
    assert "| b | us | 31.00 | 34.10 | 10.00 | 3.10 | 3.00 (+3.3%) |" in capsys.readouterr().out


def test_a_loss_that_stays_fails_and_says_what_to_do() -> None:
    measurements = Measurements({"a": 2, "b": 4}, {"b": 3.4}, {"b": 3.6})
    with pytest.raises(BenchmarkError) as caught:
        command_line.check_works(["a", "b"], {"a": 2, "b": 3}, measurements, markdown=True)
    assert measurements.works == [["a", "b"], ["b"], ["b"]]
    message = str(caught.value)
    assert message.startswith(
        "b takes 3.40 times the floor (34.00 us, floor 10.00 us), recorded: 3.00. That is 13.3% more"
    )
    assert "after 3 tries; allowed: 5%" in message
    assert "b --against COMMIT" in message
    assert "b --record" in message


def test_works_without_a_record_are_not_checked(capsys: pytest.CaptureFixture[str]) -> None:
    measurements = Measurements({"a": 2})
    command_line.check_works(["a", "b"], {"a": 2}, measurements, markdown=True)
    command_line.check_works(["a", "b"], {}, measurements, markdown=True)
    assert measurements.works == [["a"]]
    output = capsys.readouterr().out
    assert "no check of b:" in output
    assert "no check of a, b:" in output
    assert "--record" in output


def test_a_record_keeps_other_works_and_other_machines(tmp_path: Path) -> None:
    path = tmp_path / "ratios.toml"
    assert ratios.read(path, MACHINE) == {}
    ratios.write(path, MACHINE, {"a": 1.23456, "b": 3})
    ratios.write(path, "another", {"a": 7})
    ratios.write(path, MACHINE, {"a": 2})
    assert ratios.read(path, MACHINE) == {"a": 2, "b": 3}
    assert ratios.read(path, "another") == {"a": 7}
    assert path.read_text().startswith("# Processor time")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a = ", "is not TOML"),
        ("a = 1", "a is not a table"),
        ('[m]\na = "x"', "a of m is 'x', not a positive number"),
        ("[m]\na = 0", "a of m is 0, not a positive number"),
        ("[m]\na = nan", "a of m is nan, not a positive number"),
        ("[m]\na = true", "a of m is True, not a positive number"),
    ],
)
def test_a_damaged_record_is_rejected(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "ratios.toml"
    path.write_text(text)
    with pytest.raises(BenchmarkError, match=problem) as caught:
        ratios.read(path, "m")
    assert str(path) in str(caught.value)
    assert "restore it with git" in str(caught.value)


def test_the_kept_record_has_known_works() -> None:
    for machine in ratios.machines(ratios.RECORD):
        assert set(ratios.read(ratios.RECORD, machine)) <= set(WORKS)
