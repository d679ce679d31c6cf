"""A Python environment in which a package of examples/ is installed as its readers would install it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: Each step takes a few seconds, and many times that on a busy machine.
SECONDS_MAX = 600


def install_example(name: str, directory: Path) -> Path:
    """The interpreter of a new environment that has, like that of `make run`, the checkout on its path by a .pth file.

    The example is installed in it by pip, from a copy, without the network.
    """
    source = shutil.copytree(ROOT / "examples" / name, directory / "source")
    environment = directory / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True, timeout=SECONDS_MAX)
    packages = environment / "lib" / Path(sysconfig.get_path("purelib")).relative_to(sys.prefix).relative_to("lib")
    (packages / "checkout.pth").write_text(f"{ROOT}\n{sysconfig.get_path('purelib')}\n")
    offline = ["--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check", "--quiet"]
    install = [sys.executable, "-m", "pip", "install", *offline, f"--target={packages}", str(source)]
    done = subprocess.run(install, capture_output=True, text=True, timeout=SECONDS_MAX)
    assert done.returncode == 0, done.stderr
    return environment / "bin" / "python"


def run_tests_of(name: str, python: Path) -> None:
    """Fails unless the example's own tests pass there."""
    directory = ROOT / "examples" / name / "tests"
    command = [python, "-m", "pytest", "-p", "no:cacheprovider", directory]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=SECONDS_MAX)
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout
