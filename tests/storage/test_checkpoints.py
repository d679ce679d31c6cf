"""Checkpoint files: Kafka's text, and what happens to damaged ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from pylogbroker.storage.checkpoints import DamagedFile, read_epochs, read_offsets, write_epochs, write_offsets


def test_offsets_are_written_in_kafkas_format(tmp_path: Path) -> None:
    path = tmp_path / "recovery-point-offset-checkpoint"
    write_offsets(str(path), {("events", 0): 1042, ("a_b.c", 17): 0})
    assert path.read_text() == "0\n2\nevents 0 1042\na_b.c 17 0\n"
    assert read_offsets(str(path)) == {("events", 0): 1042, ("a_b.c", 17): 0}


def test_epochs_are_written_in_kafkas_format(tmp_path: Path) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    write_epochs(str(path), [(0, 0), (3, 977)])
    assert path.read_text() == "0\n2\n0 0\n3 977\n"
    assert read_epochs(str(path)) == [(0, 0), (3, 977)]


def test_no_file_is_not_a_damaged_file(tmp_path: Path) -> None:
    assert read_offsets(str(tmp_path / "none")) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0\n",
        "1\n1\nevents 0 5\n",
        "0\n2\nevents 0 5\n",
        "0\n1\nevents 0 5\nevents 1 6\n",
        "0\n1\nevents 0\n",
        "0\n1\nevents zero 5\n",
        "0\n1\nevents 0 -5\n",
        "0\nx\nevents 0 5\n",
        "\0\0\0\0",
        "\xff\xfe",
    ],
)
def test_invalid_checkpoints_are_rejected(tmp_path: Path, text: str) -> None:
    path = tmp_path / "checkpoint"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(DamagedFile):
        read_offsets(str(path))


def test_every_shorter_file_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    whole = b"0\n2\nevents 0 1042\nevents 1 977\n"
    for length in range(len(whole) - len("977\n") + 1):
        path.write_bytes(whole[:length])
        with pytest.raises(DamagedFile):
            read_offsets(str(path))
