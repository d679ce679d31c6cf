"""Editable installs of any kind: twistd, Spark and plugin discovery find everything in the copy that is edited.

Setuptools chooses between a path and a hook into imports; tools that look through the path see nothing of a hook.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SECONDS_MAX = 600
KINDS = ["", "compat", "lenient", "strict"]
EXAMPLES = ["key_prefix", "newest_segments"]
BUILD = """
import sys
from setuptools import build_meta

kind = sys.argv[2]
build_meta.build_editable(sys.argv[1], {"editable_mode": kind} if kind else None)
"""
LOOK = """
import json
import pkgutil
from importlib.metadata import entry_points
from importlib.resources import files

import pylogbroker
from pylogbroker import plugins
from twisted.application.service import IServiceMaker
from twisted.plugin import IPlugin, getPlugins
from twisted.plugins import pylogbroker_plugin

print(json.dumps({
    "twistd": [each.tapname for each in getPlugins(IServiceMaker) if each.tapname == "pylogbroker"],
    "spark": [each.name for each in pkgutil.iter_modules() if each.name.startswith("pyspark_")],
    "plugins": sorted({each.name for each in getPlugins(IPlugin, plugins)} & {"key-prefix", "newest-segments"}),
    "command": len(entry_points(group="console_scripts", name="pylogbroker")) > 0,
    "typed": files("pylogbroker").joinpath("py.typed").is_file(),
    "files": [pylogbroker.__file__, pylogbroker_plugin.__file__],
}))
"""


def copied(directory: Path) -> Path:
    """Return a copy of what an install of the project takes from the checkout."""
    copy = directory / "checkout"
    ignore = shutil.ignore_patterns("__pycache__", "dropin.cache", "tests", "*.egg-info", "build")
    for name in ("pylogbroker", "twisted", "pyspark_pylogbroker", *(f"examples/{example}" for example in EXAMPLES)):
        shutil.copytree(ROOT / name, copy / name, ignore=ignore)
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    return copy


def environment_in(directory: Path) -> tuple[Path, Path]:
    """Return the interpreter and the packages of an environment that has this one's dependencies, without its .pth."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", directory], check=True, timeout=SECONDS_MAX)
    packages = directory / Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return directory / "bin" / "python", packages


def install(source: Path, packages: Path, kind: str, wheels: Path) -> None:
    """Install like `pip install -e`, which unpacks the wheel that setuptools builds."""
    wheels.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", BUILD, wheels, kind], cwd=source, capture_output=True, text=True, timeout=SECONDS_MAX
    )
    assert done.returncode == 0, done.stderr
    [wheel] = wheels.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)


@pytest.mark.parametrize("kind", KINDS)
def test_everything_that_looks_through_the_path_is_found(kind: str, tmp_path: Path) -> None:
    copy = copied(tmp_path)
    python, packages = environment_in(tmp_path / "venv")
    install(copy, packages, kind, tmp_path / "wheels")
    for example in EXAMPLES:
        install(copy / "examples" / example, packages, kind, tmp_path / example)
    done = subprocess.run([python, "-Ic", LOOK], cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS_MAX)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert all(str(Path(file).resolve()).startswith(str(copy.resolve())) for file in found.pop("files"))
    assert found == {
        "twistd": ["pylogbroker"],
        "spark": ["pyspark_pylogbroker"],
        "plugins": ["key-prefix", "newest-segments"],
        "command": True,
        "typed": True,
    }


def test_make_installs_again_what_another_installation_has_replaced(tmp_path: Path) -> None:
    for name in ("Makefile", "setup.cfg", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    _, packages = environment_in(tmp_path / ".venv")
    (tmp_path / ".venv" / "installed").touch()

    def commands() -> str:
        make = ["make", "--dry-run", "run"]
        done = subprocess.run(make, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS_MAX)
        assert done.returncode == 0, done.stderr
        assert "twistd --nodaemon" in done.stdout
        return done.stdout

    assert "install --editable ." in commands()
    (packages / "__editable__.pylogbroker-0.1.0.pth").write_text(f"{tmp_path}\n")
    assert "install --editable" not in commands()
