"""The package without its sources, and as a zip file: a broker serves from both."""

from __future__ import annotations

import compileall
import shutil
import subprocess
import sys
from pathlib import Path

from tests.peers.processes import free_ports

ROOT = Path(__file__).parents[2]
PROGRAM = """
import sys
sys.path[:] = [sys.argv[1], *(path for path in sys.path if path and path != sys.argv[2])]
from urllib.request import urlopen
from pylogbroker.client.sync import Producer
from pylogbroker.testing import Broker
import pylogbroker

site = f"http://127.0.0.1:{sys.argv[3]}"
with Broker({"http.listeners": site}) as broker, Producer(broker.bootstrap) as producer:
    producer.send("events", b"value")
    [record] = broker.records("events")
    assert "events" in urlopen(f"{site}/topics").read().decode()
    print(pylogbroker.__file__, record.value)
"""


def copy_of_package(directory: Path) -> Path:
    for name in ("pylogbroker", "twisted"):
        ignored = shutil.ignore_patterns("__pycache__", "dropin.cache")
        shutil.copytree(ROOT / name, directory / name, ignore=ignored)
    return directory


def serves(path: Path) -> None:
    command = [sys.executable, "-P", "-c", PROGRAM, str(path), str(ROOT), str(*free_ports(1))]
    done = subprocess.run(command, cwd=path.parent, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{path}/pylogbroker/__init__.py")
    assert done.stdout.endswith("b'value'\n")


def test_byte_code_alone_serves(tmp_path: Path) -> None:
    package = copy_of_package(tmp_path / "package")
    compileall.compile_dir(package, quiet=1, legacy=True)
    for source in package.rglob("*.py"):
        source.unlink()
    serves(package)


def test_a_zip_file_serves(tmp_path: Path) -> None:
    serves(Path(shutil.make_archive(str(tmp_path / "package"), "zip", copy_of_package(tmp_path / "files"))))
