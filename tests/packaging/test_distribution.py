"""The source distribution and the wheel, as an index would get them."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import attrs
import pytest

ROOT = Path(__file__).parents[2]


@attrs.frozen
class Distribution:
    """Files of a build, and the files of the checkout that it was made from."""

    files: list[str]
    sdist: Path
    wheel: Path
    output: str


def files_of_project() -> list[str]:
    """Return what git tracks, or all files of a source distribution."""
    if (ROOT / ".git").exists():
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        return [name for name in listed.split("\0") if name and (ROOT / name).exists()]
    lines = (ROOT / "pylogbroker.egg-info" / "SOURCES.txt").read_text().splitlines()
    return [name for name in lines if "egg-info" not in name]


def run(*arguments: object, cwd: Path) -> str:
    done = subprocess.run(
        [sys.executable, *map(str, arguments)], cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def distribution(tmp_path_factory: pytest.TempPathFactory) -> Distribution:
    checkout = tmp_path_factory.mktemp("checkout")
    files = files_of_project()
    for name in files:
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, checkout / name)
    output = run("-m", "build", "--no-isolation", cwd=checkout)
    (sdist,) = (checkout / "dist").glob("*.tar.gz")
    (wheel,) = (checkout / "dist").glob("*.whl")
    return Distribution(files, sdist, wheel, output)


def test_the_source_distribution_has_every_file_of_the_project(distribution: Distribution) -> None:
    with tarfile.open(distribution.sdist) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    assert sorted(set(distribution.files) - packed) == []


def test_the_wheel_has_the_product_alone(distribution: Distribution) -> None:
    product = ("pylogbroker/", "pyspark_pylogbroker/", "twisted/plugins/")
    with zipfile.ZipFile(distribution.wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert packed == {name for name in distribution.files if name.startswith(product)}


def test_metadata_and_contents_pass_the_checks_of_an_index(distribution: Distribution) -> None:
    run("-m", "twine", "check", "--strict", distribution.sdist, distribution.wheel, cwd=ROOT)
    run("-m", "check_wheel_contents", distribution.wheel, cwd=ROOT)


def test_the_build_warns_of_nothing(distribution: Distribution) -> None:
    expected = ("no previously-included files", "byte-compiling is disabled")
    lines = [line for line in distribution.output.splitlines() if "warn" in line.lower() or "deprecat" in line.lower()]
    assert [line for line in lines if not any(text in line for text in expected)] == []
