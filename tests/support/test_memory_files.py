"""Tests of the directory for files in memory."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support import memory_files


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", "/found/before")
    monkeypatch.setattr(memory_files, "DIRECTORY", tmp_path)
    monkeypatch.setattr(memory_files, "FREE_BYTES_MIN", 1)
    return tmp_path


def configure(*, thorough: bool = False) -> None:
    config: Any = SimpleNamespace(option=SimpleNamespace(thorough=thorough))
    memory_files.pytest_configure(config)


def test_temporary_files_are_there(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", "")  # restored in the end
    monkeypatch.delenv("TMPDIR")
    configure()
    assert os.environ["TMPDIR"] == tempfile.gettempdir() == str(directory)


def test_thorough_runs_use_a_disk(directory: Path) -> None:
    configure(thorough=True)
    assert "TMPDIR" not in os.environ


def test_a_given_directory_is_used(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", "/given")
    configure()
    assert os.environ["TMPDIR"] == "/given"


def test_a_small_directory_is_not_used(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_files, "FREE_BYTES_MIN", 1 << 60)
    configure()
    assert "TMPDIR" not in os.environ


def test_a_missing_directory_is_not_used(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_files, "DIRECTORY", directory / "none")
    configure()
    assert "TMPDIR" not in os.environ
