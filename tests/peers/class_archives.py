"""Archives of classes that a server has loaded and checked: with one, a broker of Kafka starts in half the time.

`python -m tests.peers` makes them (`kafka_classes`), one for each release and JDK.  Where there is none, or one that
does not fit, the JVM loads the jars as usual.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from functools import cache
from pathlib import Path

from tests.peers.maven import CACHE, POMS
from tests.peers.spark import SILENT


@cache
def archive_options(release: str) -> tuple[str, ...]:
    """Return the options of a JVM that uses the archive of a release, if there is one."""
    archive = archive_path(release)
    return (*SILENT, f"-XX:SharedArchiveFile={archive}") if archive.exists() else ()


def archive_path(release: str) -> Path:
    """Return the path of the archive for this JDK, these jars and this checkout."""
    java = os.path.realpath(shutil.which("java") or "java")
    changed = os.path.getmtime(java) if os.path.exists(java) else 0
    fits = f"{java} {changed} {CACHE} {(POMS / f'{release}.xml').read_text()}"
    return CACHE / "kafka-classes" / f"{release}-{hashlib.sha256(fits.encode()).hexdigest()[:16]}.jsa"
