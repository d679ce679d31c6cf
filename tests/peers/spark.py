"""Spark that starts sooner, its JVM in half and its Python processes in a third of the time.

    settings = {"spark.driver.extraJavaOptions": " ".join(java_options())}

- `java_options` name an archive of the JDK with classes that are loaded and checked. `python -m tests.peers` makes it,
  once for each JDK and each installation of PySpark; `spark_classes` is the program whose classes are kept. Where there
  is no archive Spark loads its jars as usual.
- `home` is SPARK_HOME of all tests: links to the programs and jars of the installed PySpark, but not to `pyspark.zip`.
  Spark puts that file on the path of each Python process, which compiles its modules each time, for 1 s. Without
  the file they import the installed package, which is compiled.
"""

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
from functools import cache
from importlib.metadata import distribution
from pathlib import Path

from tests.peers.maven import CACHE, PeerError, locked
from tests.peers.processes import QUICK

#: An archive that does not fit is passed over, without a word on the standard output.
SILENT = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")


@cache
def java_options() -> tuple[str, ...]:
    """Return the options for a JVM of Spark that does not run for long."""
    if shutil.which("java") is None:
        return QUICK
    archive = _archive()
    return (*QUICK, *SILENT, f"-XX:SharedArchiveFile={archive}") if archive.exists() else QUICK


@cache
def home() -> Path:
    """Return the value for SPARK_HOME, made if it is not there yet."""
    installed = Path(str(distribution("pyspark").locate_file("pyspark")))
    made = CACHE / "spark-home" / hashlib.sha256(bytes(installed)).hexdigest()[:16]
    made.mkdir(parents=True, exist_ok=True)
    for name in ("bin", "jars"):
        with contextlib.suppress(FileExistsError):
            (made / name).symlink_to(installed / name)
    return made


def make_archive() -> Path:
    """Return the archive, made if it is not there yet."""
    archive = _archive()
    with locked(f"spark-{archive.stem}"):
        if not archive.exists():
            archive.parent.mkdir(parents=True, exist_ok=True)
            fresh = archive.with_suffix(".new")
            fresh.unlink(missing_ok=True)
            command = [sys.executable, "-m", "tests.peers.spark_classes", str(fresh)]
            env = {**os.environ, "SPARK_HOME": str(home())}
            done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
            if done.returncode or not fresh.exists():
                raise PeerError(f"Spark's classes could not be archived:\n{done.stdout}{done.stderr}")
            fresh.rename(archive)
    return archive


def _archive() -> Path:
    jdk = subprocess.run(["java", "-version"], capture_output=True, check=True).stderr.decode()
    fits = f"{jdk} {os.environ.get('JAVA_HOME')} {distribution('pyspark').version} {home()}"
    return CACHE / "spark-classes" / f"{hashlib.sha256(fits.encode()).hexdigest()[:16]}.jsa"
