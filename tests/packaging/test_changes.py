"""Files of `changes/`, which a release joins to the changelog."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def build(directory: Path) -> str:
    options = ["--version", "9.9.9", "--yes", "--dir", str(directory)]
    command = [sys.executable, "-m", "towncrier", "build", *options]
    done = subprocess.run(command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
    return (directory / "CHANGELOG.md").read_text()


def test_changes_become_a_part_above_the_last_release(tmp_path: Path) -> None:
    for name in ("pyproject.toml", "CHANGELOG.md"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "changes", tmp_path / "changes")
    (tmp_path / "changes" / "test-of-changes.fix.md").write_text("`produce` keeps all bytes.")
    before = (tmp_path / "CHANGELOG.md").read_text()
    after = build(tmp_path)
    head, part = after.split("## 9.9.9 (", 1)
    assert "towncrier release notes start" in head
    assert "### Fixed\n\n- `produce` keeps all bytes." in part
    assert part.endswith(before.split("notes start -->")[1].lstrip("\n"))


def test_each_file_of_changes_has_a_kind() -> None:
    kinds = {"feature", "fix", "changed", "removed"}
    names = [path.name for path in (ROOT / "changes").iterdir() if path.name != "README.md"]
    assert [name for name in names if name.split(".")[1:] not in [[kind, "md"] for kind in kinds]] == []
