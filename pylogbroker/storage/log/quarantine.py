"""Segments that recovery takes out of a log, and that are kept: moved, with all of their files, beside the log.

    <log directory>/<topic>_<partition>/                    up to the cut
    <log directory>/<topic>_<partition>.<random>-stray/     what lay behind it, for a person to look at

A start that dies half way leaves segments that do not go on where the log ends now; the next one sets them aside, too.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress

from pylogbroker.storage import names
from pylogbroker.storage.files import sync_file
from pylogbroker.storage.log.segment import Segment


def quarantine(path: str, segments: Sequence[Segment]) -> str:
    """Move segments of the log at `path` into a new directory; says which.  Blocks; OSError if not all could be."""
    home, name = os.path.split(path)
    aside = f"{home}/{names.stray_directory(name)}"
    os.mkdir(aside)
    for segment in segments:
        segment.close()
        base = segment.base_offset
        for suffix in names.SEGMENT_FILES:
            with suppress(FileNotFoundError):
                os.rename(names.file_of(path, base, suffix), names.file_of(aside, base, suffix))
    for changed in (aside, path, home):
        sync_file(changed)
    return aside
