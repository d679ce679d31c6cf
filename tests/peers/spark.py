"""A JVM of Spark that starts in half the time: its classes are kept, loaded and checked, in an archive of the JDK's.

    settings = {"spark.driver.extraJavaOptions": " ".join(java_options())}

`python -m tests.peers` makes the archive, once for each JDK and each installation of PySpark; `spark_classes` is the
program whose classes are kept.  Where there is no archive Spark loads its jars as usual.
"""

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


def make_archive() -> Path:
    """Return the archive, made if it is not there yet."""
    archive = _archive()
    with locked(f"spark-{archive.stem}"):
        if not archive.exists():
            archive.parent.mkdir(parents=True, exist_ok=True)
            fresh = archive.with_suffix(".new")
            fresh.unlink(missing_ok=True)
            command = [sys.executable, "-m", "tests.peers.spark_classes", str(fresh)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode or not fresh.exists():
                raise PeerError(f"Spark's classes could not be archived:\n{done.stdout}{done.stderr}")
            fresh.rename(archive)
    return archive


def _archive() -> Path:
    jdk = subprocess.run(["java", "-version"], capture_output=True, check=True).stderr.decode()
    pyspark = distribution("pyspark")
    fits = f"{jdk} {os.environ.get('JAVA_HOME')} {pyspark.version} {pyspark.locate_file('pyspark')}"
    return CACHE / "spark-classes" / f"{hashlib.sha256(fits.encode()).hexdigest()[:16]}.jsa"
